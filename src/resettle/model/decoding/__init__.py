"""From the bytes of the API to the values of `model`.

`wire` has the structs that msgspec decodes, with only the fields that are read; `decoder` turns
them into values; `pod_parts` lets pods share equal parts, so that 150,000 pods fit in little
memory; `pod_fields` reads single fields of a pod; `workloads` reads Deployments and their like. No
defaults of the API server are filled in.
Start with `decoder`. `kube`, `dumps`, `record` and `testing` import it.

Import from outside: `decoder`, `wire`, `workloads`.
"""
