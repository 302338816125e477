{{- define "nfp.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: node-fencing-operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The Secrets that the FenceDevices of the values name, with a comma between two. */}}
{{- define "nfp.deviceSecrets" -}}
{{- $names := list }}
{{- range .Values.devices }}
{{- range $field, $it := .spec }}
{{- if kindIs "map" $it }}
{{- if and (eq $field "credentialsRef") (kindIs "string" $it.name) }}{{ $names = append $names $it.name }}{{ end }}
{{- $ca := dig "tls" "caRef" dict $it }}
{{- if and (eq (toString $ca.kind) "Secret") (kindIs "string" $ca.name) }}{{ $names = append $names $ca.name }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- $names | uniq | sortAlpha | join "," }}
{{- end }}
