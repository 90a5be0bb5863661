{{/* The names of objects, and the labels that all of them have. */}}

{{- define "ferroplane.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "ferroplane.fullname" -}}
{{- $name := include "ferroplane.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ferroplane.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "ferroplane.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed if serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The ServiceAccount that writes composed resources. Empty if the control plane writes them with its own ServiceAccount. */}}
{{- define "ferroplane.composer" -}}
{{- if and .Values.rbac.create .Values.rbac.separateComposer (not .Values.rbac.clusterAdmin) -}}
{{- printf "%s-composer" (include "ferroplane.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "ferroplane.webhookService" -}}
{{- printf "%s-webhooks" (include "ferroplane.fullname" .) -}}
{{- end -}}

{{- define "ferroplane.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The labels that only pods of this release have. They never change, because the selector of a Deployment is immutable. */}}
{{- define "ferroplane.selector" -}}
app.kubernetes.io/name: {{ include "ferroplane.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ferroplane.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "ferroplane.selector" . }}
app.kubernetes.io/component: control-plane
app.kubernetes.io/part-of: ferroplane
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "ferroplane.labels" -}}
{{- include "ferroplane.labelsWith" (dict "context" . "more" dict) -}}
{{- end -}}

{{/*
The labels of an object, together with its own labels (`more`). Each label appears once: labels of the object win over `customLabels`, and
these win over labels of the chart. A user cannot replace the labels of the chart that selectors rely on.
*/}}
{{- define "ferroplane.labelsWith" -}}
{{- $given := merge (dict) (default dict .more) (default dict .context.Values.customLabels) -}}
{{- range $key, $value := fromYaml (include "ferroplane.selector" .context) -}}
{{- if and (hasKey $given $key) (ne (get $given $key | toString) (toString $value)) -}}
{{- fail (printf "the label %s cannot be set: selectors of the chart rely on its value %q" $key (toString $value)) -}}
{{- end -}}
{{- end -}}
{{- $lines := list -}}
{{- range $line := splitList "\n" (include "ferroplane.ownLabels" .context) -}}
{{- if not (hasKey $given (splitList ":" $line | first)) -}}
{{- $lines = append $lines $line -}}
{{- end -}}
{{- end -}}
{{- if $given -}}
{{- $lines = append $lines (toYaml $given) -}}
{{- end -}}
{{- join "\n" $lines -}}
{{- end -}}

{{/* The rest of `metadata`, indented: labels and annotations. */}}
{{- define "ferroplane.metadata" -}}
labels:
  {{- include "ferroplane.labels" . | nindent 2 }}
{{- with .Values.customAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "ferroplane.subjects" -}}
- kind: ServiceAccount
  name: {{ include "ferroplane.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
