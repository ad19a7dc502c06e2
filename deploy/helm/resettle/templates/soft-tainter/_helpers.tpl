{{- define "resettle.tainter.fullname" -}}
{{- printf "%s-soft-tainter" (include "resettle.fullname" . | trunc 50 | trimSuffix "-") -}}
{{- end -}}

{{/* A name of its own, so that neither Deployment, Service nor budget of the descheduler counts its pods. */}}
{{- define "resettle.tainter.selector" -}}
app.kubernetes.io/name: {{ printf "%s-soft-tainter" (include "resettle.name" . | trunc 50 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "resettle.tainter.labels" -}}
{{ include "resettle.tainter.selector" . }}
{{ include "resettle.described" . }}
{{- end -}}

{{/* Whether no taint is to be set: "true" or nothing. */}}
{{- define "resettle.tainter.dryRun" -}}
{{- if kindIs "invalid" .Values.softTainter.dryRun -}}
{{- include "resettle.dryRun" . -}}
{{- else if .Values.softTainter.dryRun -}}true
{{- end -}}
{{- end -}}

{{/* The prefix that was chosen for its taints, here or in the policy; nothing if none was. */}}
{{- define "resettle.tainter.prefix" -}}
{{- $here := .Values.softTainter.prefix -}}
{{- $there := dig "softTaints" "prefix" "" (.Values.deschedulerPolicy | default dict) -}}
{{- if and $here $there (ne $here $there) -}}
{{- fail (printf "softTainter.prefix is %s and softTaints.prefix of the policy is %s; keep one of the two" $here $there) -}}
{{- end -}}
{{- $here | default $there -}}
{{- end -}}

{{/* What the values add to the policy, as {"softTaints": {…}}. */}}
{{- define "resettle.tainter.marks" -}}
{{- if and .Values.softTainter.enabled .Values.softTainter.prefix -}}
{{- $version := get (.Values.deschedulerPolicy | default dict) "apiVersion" | default .Values.deschedulerPolicyAPIVersion -}}
{{- if not (or (empty .Values.deschedulerPolicy) (eq $version "resettle/v1")) -}}
{{- fail (printf "softTainter.prefix takes a policy of resettle/v1, and this is one of %s; set deschedulerPolicyAPIVersion" $version) -}}
{{- end -}}
softTaints:
  prefix: {{ include "resettle.tainter.prefix" . }}
{{- end -}}
{{- end -}}

{{/* Its roles and its admission policy as `resettle rbac` prints them, by their kinds. */}}
{{- define "resettle.tainter.printed" -}}
{{- $found := dict -}}
{{- range splitList "---\n" (.Files.Get "files/soft-tainter.yaml") -}}
{{- $it := fromYaml . -}}
{{- $_ := set $found $it.kind $it -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/* The command line, flag by flag. */}}
{{- define "resettle.tainter.args" -}}
- --policy=/policy-dir/policy.yaml
- --interval={{ .Values.softTainter.interval }}
- --leader-elect
- --leader-elect-lease-duration={{ .Values.leaderElection.leaseDuration }}
- --leader-elect-renew-deadline={{ .Values.leaderElection.renewDeadline }}
- --leader-elect-retry-period={{ .Values.leaderElection.retryPeriod }}
- --leader-elect-resource-name={{ include "resettle.tainter.fullname" . }}
- --leader-elect-resource-namespace={{ include "resettle.namespace" . }}
{{- if .Values.softTainter.removeOnly }}
- --remove-only
{{- else if include "resettle.tainter.dryRun" . }}
- --dry-run
{{- end }}
{{- include "resettle.flags" .Values.softTainter.cmdOptions }}
{{- end -}}

{{/* What the kubelet asks for. */}}
{{- define "resettle.tainter.probe" -}}
httpGet:
  path: {{ . }}
  port: 10261
  scheme: HTTPS
timeoutSeconds: 5
{{- end -}}
