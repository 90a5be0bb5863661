{{- define "zone" }}zone: {{ . }}{{ end -}}
