{{/* One operator a cluster: its CRDs, its claim and its admission policies are the cluster's. So the names are fixed, and Helm refuses a
second release, which would own the same objects. */}}
{{- define "nfo.name" -}}node-fencing-operator{{- end }}

{{- define "nfo.selector" -}}
app.kubernetes.io/name: {{ include "nfo.name" . }}
{{- end }}

{{- define "nfo.labels" -}}
{{ include "nfo.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The user that the API server sees, as the admission policies name it. */}}
{{- define "nfo.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.serviceAccount.name }}
{{- end }}

{{- define "nfo.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ if .Values.image.agents }}-agents{{ end }}
{{- end -}}
{{- end }}

{{/* The Secrets that the FenceDevices of the values name, with a comma between two. */}}
{{- define "nfo.deviceSecrets" -}}
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

{{/* A file of deploy/ or crds/ that holds for every release but for its labels. */}}
{{- define "nfo.relabelled" -}}
{{- $labels := include "nfo.labels" .root | nindent 4 | trimPrefix "\n    " -}}
{{- .text | replace "app.kubernetes.io/name: node-fencing-operator" $labels -}}
{{- end }}

{{/* A text of a file of this chart (.file, .text) with .new in place of .old. Without .old there it would be installed as it is, for another
account for instance: so that is an error. */}}
{{- define "nfo.replaced" -}}
{{- if not (contains .old .text) -}}
{{- fail (printf "%s of this chart has no %q, which the chart's template replaces: take the whole chart of one version" .file .old) -}}
{{- end -}}
{{- .text | replace .old .new -}}
{{- end }}

{{/* Is this kind to be rendered? Of .root, .kind ("monitoring.coreos.com/v1/ServiceMonitor"), .mode and .what (the value that asks for it). */}}
{{- define "nfo.renders" -}}
{{- if or (eq .mode "alwaysRender") (.root.Capabilities.APIVersions.Has .kind) -}}
yes
{{- else if eq .mode "failIfMissing" -}}
{{- fail (printf "%s: this cluster does not serve %s: install what defines it first, or take a renderMode of skipIfMissing or alwaysRender" .what .kind) -}}
{{- end -}}
{{- end }}
