{{- define "resettle.migration.fullname" -}}
{{- printf "%s-migration-controller" (include "resettle.fullname" . | trunc 42 | trimSuffix "-") -}}
{{- end -}}

{{/* A name of its own, so that neither Deployment, Service nor budget of the descheduler counts its pods. */}}
{{- define "resettle.migration.selector" -}}
app.kubernetes.io/name: {{ printf "%s-migration-controller" (include "resettle.name" . | trunc 42 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "resettle.migration.labels" -}}
{{ include "resettle.migration.selector" . }}
{{ include "resettle.described" . }}
{{- end -}}

{{/* Whether no pod is to be moved: "true" or nothing. */}}
{{- define "resettle.migration.dryRun" -}}
{{- if kindIs "invalid" .Values.migrationController.dryRun -}}
{{- include "resettle.dryRun" . -}}
{{- else if .Values.migrationController.dryRun -}}true
{{- end -}}
{{- end -}}

{{/* The definition and the admission policies as `resettle crds` prints them, with names of this release, as {"items": […]}. */}}
{{- define "resettle.migration.printed" -}}
{{- $name := include "resettle.migration.fullname" . -}}
{{- $text := .Files.Get "files/crds.yaml" | replace "name-of-controller" $name | replace "namespace-of-release" (include "resettle.namespace" .) -}}
{{- $items := list -}}
{{- range splitList "---\n" $text -}}
{{- $items = append $items (fromYaml .) -}}
{{- end -}}
{{- dict "items" $items | toYaml -}}
{{- end -}}

{{/* The rules of its ClusterRole as {"rules": […]}: those of any job, and those of its ways of steering. */}}
{{- define "resettle.migration.rules" -}}
{{- $rules := .Values.migrationController.rules -}}
{{- if empty $rules -}}
{{- range splitList "---\n" (.Files.Get "files/migration-controller.yaml") -}}
{{- $it := fromYaml . -}}
{{- if eq $it.kind "ClusterRole" -}}
{{- $rules = $it.rules -}}
{{- end -}}
{{- end -}}
{{- $steering := .Values.migrationController.steering -}}
{{- if or (has "Soft" $steering) (has "Hard" $steering) -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "nodes") "verbs" (list "get" "patch")) -}}
{{- end -}}
{{- if has "Gate" $steering -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "pods") "verbs" (list "patch")) -}}
{{- end -}}
{{- end -}}
{{- include "resettle.granted" (dict "rules" $rules "options" .Values.migrationController.cmdOptions) -}}
{{- end -}}

{{/* The command line, flag by flag. */}}
{{- define "resettle.migration.args" -}}
- --policy=/policy-dir/policy.yaml
- --leader-elect
- --leader-elect-lease-duration={{ .Values.leaderElection.leaseDuration }}
- --leader-elect-renew-deadline={{ .Values.leaderElection.renewDeadline }}
- --leader-elect-retry-period={{ .Values.leaderElection.retryPeriod }}
- --leader-elect-resource-name={{ include "resettle.migration.fullname" . }}
- --leader-elect-resource-namespace={{ include "resettle.namespace" . }}
{{- if include "resettle.migration.dryRun" . }}
- --dry-run
{{- end }}
{{- include "resettle.flags" .Values.migrationController.cmdOptions }}
{{- end -}}

{{/* What the kubelet asks for. */}}
{{- define "resettle.migration.probe" -}}
httpGet:
  path: {{ . }}
  port: 10262
  scheme: HTTPS
timeoutSeconds: 5
{{- end -}}
