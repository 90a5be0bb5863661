{{- define "labels" -}}
app.kubernetes.io/name: {{ .metadata.name }}
app.kubernetes.io/managed-by: crossplane
{{- end }}
