# The image of resettle: an interpreter, hashed requirements, byte code, and an unprivileged user.
#
#     docker build -t resettle:0.1.0 .

FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE requirements.txt requirements-build.txt ./
COPY deploy/image/build.sh deploy/image/build.sh
COPY src src
RUN deploy/image/build.sh /install

FROM python:3.13-slim-bookworm
LABEL org.opencontainers.image.title="resettle" \
      org.opencontainers.image.description="Moves running Kubernetes pods to better places, and says why" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN python -m pip uninstall --yes pip
COPY --from=build /install /usr/local
# Manifests of kubernetes-sigs/descheduler use this name.
RUN ln -s /usr/local/bin/descheduler /bin/descheduler && /bin/descheduler version
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /
USER 65532:65532
EXPOSE 10258
ENTRYPOINT ["resettle"]
CMD ["--help"]
