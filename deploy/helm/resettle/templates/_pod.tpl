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
{{- include "resettle.flags" .Values.cmdOptions }}
{{- end -}}

{{/* Flags as they are given. */}}
{{- define "resettle.flags" -}}
{{- range $flag, $value := . }}
- {{ ternary (printf "--%s" $flag) (printf "--%s=%v" $flag $value) (kindIs "invalid" $value) | quote }}
{{- end }}
{{- end -}}

{{/* The pod of both forms; `restartPolicy` and the readiness probe are the form's own. */}}
{{- define "resettle.pod" -}}
{{- $process := eq .Values.kind "Deployment" -}}
{{- $own := dict "top" . "restartPolicy" (ternary "Always" "Never" $process) -}}
{{- $_ := set $own "labels" (include "resettle.labels" .) -}}
{{- $_ := set $own "account" (include "resettle.account" .) -}}
{{- $_ := set $own "args" (include "resettle.args" .) -}}
{{- range $key := list "command" "ports" "livenessProbe" "resources" "affinity" "topologySpreadConstraints" "initContainers" -}}
{{- $_ := set $own $key (get $.Values $key) -}}
{{- end -}}
{{- if $process -}}
{{- $_ := set $own "readinessProbe" .Values.readinessProbe -}}
{{- end -}}
{{- include "resettle.anyPod" $own -}}
{{- end -}}

{{/* A pod of this release: what is its own, and what is for all of them. */}}
{{- define "resettle.anyPod" -}}
{{- $own := . -}}
{{- with .top -}}
metadata:
  labels:
    {{- $own.labels | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: {{ $own.restartPolicy }}
  serviceAccountName: {{ $own.account }}
  automountServiceAccountToken: {{ .Values.automountServiceAccountToken }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- range $key := list "imagePullSecrets" "nodeSelector" "tolerations" "dnsConfig" }}
  {{- with get $own.top.Values $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- range $key := list "affinity" "topologySpreadConstraints" "initContainers" }}
  {{- with get $own $key }}
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
        {{- toYaml $own.command | nindent 8 }}
      args:
        {{- $own.args | nindent 8 }}
      {{- range $key := list "ports" "livenessProbe" "readinessProbe" }}
      {{- with get $own $key }}
      {{ $key }}:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      resources:
        {{- toYaml $own.resources | nindent 8 }}
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
{{- end -}}
