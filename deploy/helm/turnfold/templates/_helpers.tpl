{{- define "turnfold.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- define "turnfold.labels" -}}
app.kubernetes.io/name: turnfold
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
