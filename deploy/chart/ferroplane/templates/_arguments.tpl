{{/* The arguments of the container. Flags that the user gives come last, and win. */}}
{{- define "ferroplane.arguments" -}}
- start
- --health-address={{ .Values.listenAddress }}:{{ .Values.health.port }}
{{- if .Values.metrics.enabled }}
- --metrics-address={{ .Values.listenAddress }}:{{ .Values.metrics.port }}
{{- end }}
{{- if .Values.webhooks.enabled }}
- --webhook-address={{ .Values.listenAddress }}:{{ .Values.webhooks.port }}
- --webhook-service={{ include "ferroplane.webhookService" . }}
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
