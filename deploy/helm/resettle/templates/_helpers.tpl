{{- define "resettle.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "resettle.fullname" -}}
{{- $name := include "resettle.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "resettle.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "resettle.account" -}}
{{- $own := ternary (include "resettle.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $own -}}
{{- end -}}

{{- define "resettle.selector" -}}
app.kubernetes.io/name: {{ include "resettle.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "resettle.labels" -}}
{{ include "resettle.selector" . }}
{{ include "resettle.described" . }}
{{- end -}}

{{/* Labels by which nothing is selected. */}}
{{- define "resettle.described" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Whether cmdOptions set a switch: "true" or nothing. */}}
{{- define "resettle.switch" -}}
{{- if hasKey .options .name -}}
{{- $said := index .options .name -}}
{{- if or (kindIs "invalid" $said) (eq (toString $said) "true") -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether nothing is to be evicted: "true" or nothing. A flag in cmdOptions has the last word. */}}
{{- define "resettle.dryRun" -}}
{{- if hasKey .Values.cmdOptions "dry-run" -}}
{{- include "resettle.switch" (dict "options" .Values.cmdOptions "name" "dry-run") -}}
{{- else if kindIs "invalid" .Values.dryRun -}}
{{- if empty .Values.deschedulerPolicy -}}true{{- end -}}
{{- else if .Values.dryRun -}}true
{{- end -}}
{{- end -}}

{{/* Whether a lease is held: "true" or nothing. */}}
{{- define "resettle.leads" -}}
{{- $process := eq .Values.kind "Deployment" -}}
{{- if and $process .Values.leaderElection.enabled (not (include "resettle.dryRun" .)) -}}true{{- end -}}
{{- end -}}

{{- define "resettle.leaseName" -}}
{{- .Values.leaderElection.resourceName | default (include "resettle.fullname" .) -}}
{{- end -}}

{{- define "resettle.leaseNamespace" -}}
{{- .Values.leaderElection.resourceNamespace | default (include "resettle.namespace" .) -}}
{{- end -}}

{{/* The policy, as the ConfigMap holds it, with what it says to the soft tainter. */}}
{{- define "resettle.policy" -}}
{{- $marks := include "resettle.tainter.marks" . | fromYaml -}}
{{- if empty .Values.deschedulerPolicy -}}
{{ .Files.Get "files/policy.yaml" }}
{{- with $marks }}
{{ toYaml . }}
{{- end }}
{{- else -}}
{{- $head := dict "apiVersion" .Values.deschedulerPolicyAPIVersion "kind" "DeschedulerPolicy" -}}
{{ merge (deepCopy .Values.deschedulerPolicy) $head $marks | toYaml }}
{{- end }}
{{- end -}}

{{/* Rules of the ClusterRole as {"rules": […]}; in a dry run those that read. */}}
{{- define "resettle.rules" -}}
{{- $shipped := .Files.Get "files/rights.yaml" | fromYaml -}}
{{- $rules := .Values.rbac.rules | default $shipped.rbac.rules -}}
{{- $dry := include "resettle.dryRun" . -}}
{{- $granted := list -}}
{{- range $rules -}}
{{- $verbs := list -}}
{{- range .verbs -}}
{{- if or (not $dry) (has . (list "get" "list" "watch")) -}}
{{- $verbs = append $verbs . -}}
{{- end -}}
{{- end -}}
{{- if $verbs -}}
{{- $granted = append $granted (set (deepCopy .) "verbs" $verbs) -}}
{{- end -}}
{{- end -}}
{{- include "resettle.granted" (dict "rules" $granted "options" .Values.cmdOptions) -}}
{{- end -}}

{{/* The same rules, and those for access reviews of metrics clients. */}}
{{- define "resettle.granted" -}}
{{- $granted := .rules -}}
{{- if include "resettle.switch" (dict "options" .options "name" "protect-metrics") -}}
{{- range $group, $kind := dict "authentication.k8s.io" "tokenreviews" "authorization.k8s.io" "subjectaccessreviews" -}}
{{- $review := dict "apiGroups" (list $group) "resources" (list $kind) "verbs" (list "create") -}}
{{- if not (has $review $granted) -}}
{{- $granted = append $granted $review -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "rules" $granted | toYaml -}}
{{- end -}}

{{/* The Secrets with tokens for Prometheus that the policy names, as {namespace: [name, …]}. */}}
{{- define "resettle.secrets" -}}
{{- $found := dict -}}
{{- range (.Values.deschedulerPolicy | default dict).metricsProviders -}}
{{- with dig "prometheus" "authToken" "secretReference" dict . -}}
{{- $_ := set $found .namespace (append (get $found .namespace | default list) .name | uniq) -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}
