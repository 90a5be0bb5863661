{{/* The arguments of the container. Flags that the user gives come last, and win. */}}
{{- define "ferroplane.arguments" -}}
- start
- --health-address={{ .Values.listenAddress }}:{{ .Values.health.port }}
{{- /* If metrics are disabled, only processes in the pod can read them. */}}
- --metrics-address={{ .Values.metrics.enabled | ternary .Values.listenAddress "127.0.0.1" }}:{{ .Values.metrics.port }}
{{- if .Values.webhooks.enabled }}
- --webhook-address={{ .Values.listenAddress }}:{{ .Values.webhooks.port }}
- --webhook-service={{ include "ferroplane.webhookService" . }}
{{- else }}
- --enable-webhooks=false
{{- end }}
{{- if not .Values.rbac.manageRoles }}
- --write-roles=false
{{- end }}
{{- if .Values.operations.enabled }}
- --enable-operations
{{- end }}
{{- if .Values.blueprints.enabled }}
- --enable-blueprints
{{- end }}
{{- with include "ferroplane.composer" . }}
- --compose-as=system:serviceaccount:{{ $.Release.Namespace }}:{{ . }}
{{- end }}
{{- if .Values.functionCache.enabled }}
- --xfn-cache-dir=/cache/xfn
{{- end }}
{{- if .Values.packages.enabled }}
- --enable-packages
- --package-runtime={{ .Values.packages.runtime }}
- --xpkg-cache-dir=/cache/xpkg
{{- if .Values.packages.protectProviders }}
- --enable-provider-deletion-protection
{{- end }}
{{- if .Values.packages.functionAdapter }}
- --function-adapter-image={{ include "ferroplane.image" . }}
{{- end }}
{{- end }}
- --log-format={{ .Values.logFormat }}
{{- if .Values.debug }}
- --debug
{{- end }}
{{- if .Values.config }}
- --config=/etc/ferroplane/config.yaml
{{- end }}
{{- range .Values.args }}
- {{ . | quote }}
{{- end }}
{{- end -}}
