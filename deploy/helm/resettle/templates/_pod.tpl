{{/* The command line, flag by flag. */}}
{{- define "resettle.args" -}}
- --policy-config-file=/policy-dir/policy.yaml
{{- if eq .Values.kind "Deployment" }}
- --descheduling-interval={{ .Values.deschedulingInterval }}
{{- end }}
{{- if include "resettle.leads" . }}
- --leader-elect=true
- --leader-elect-lease-duration={{ .Values.leaderElection.leaseDuration }}
- --leader-elect-renew-deadline={{ .Values.leaderElection.renewDeadline }}
- --leader-elect-retry-period={{ .Values.leaderElection.retryPeriod }}
- --leader-elect-resource-lock={{ .Values.leaderElection.resourceLock }}
- --leader-elect-resource-name={{ include "resettle.leaseName" . }}
- --leader-elect-resource-namespace={{ include "resettle.leaseNamespace" . }}
{{- end }}
{{- if and (include "resettle.dryRun" .) (not (hasKey .Values.cmdOptions "dry-run")) }}
- --dry-run
{{- end }}
{{- range $flag, $value := .Values.cmdOptions }}
- {{ ternary (printf "--%s" $flag) (printf "--%s=%v" $flag $value) (kindIs "invalid" $value) | quote }}
{{- end }}
{{- end -}}

{{/* The pod of both forms; `restartPolicy` and the readiness probe are the form's own. */}}
{{- define "resettle.pod" -}}
metadata:
  labels:
    {{- include "resettle.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: {{ ternary "Always" "Never" (eq .Values.kind "Deployment") }}
  serviceAccountName: {{ include "resettle.account" . }}
  automountServiceAccountToken: {{ .Values.automountServiceAccountToken }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- range $key := list "imagePullSecrets" "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" "dnsConfig" "initContainers" }}
  {{- with get $.Values $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .Chart.Name }}
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command:
        {{- toYaml .Values.command | nindent 8 }}
      args:
        {{- include "resettle.args" . | nindent 8 }}
      {{- with .Values.ports }}
      ports:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.livenessProbe }}
      livenessProbe:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if eq .Values.kind "Deployment" }}
      {{- with .Values.readinessProbe }}
      readinessProbe:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      {{- with .Values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: policy
          mountPath: /policy-dir
          readOnly: true
        {{- with .Values.extraServiceAccountVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: policy
      configMap:
        name: {{ include "resettle.fullname" . }}
    {{- with .Values.extraServiceAccountVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
