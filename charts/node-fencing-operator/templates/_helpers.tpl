{{/* One operator a cluster: its CRDs, its claim and its admission policies are the cluster's. So the names are fixed, and Helm refuses a
second release, which would own the same objects. */}}
{{- define "nfo.name" -}}node-fencing-operator{{- end }}

{{- define "nfo.selector" -}}
app.kubernetes.io/name: {{ include "nfo.name" . }}
{{- end }}

{{- define "nfo.labels" -}}
{{ include "nfo.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: {{ include "nfo.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The labels and annotations of an object, of the release and its own: .root, .labels and .annotations, the latter two if it has any. */}}
{{- define "nfo.meta" -}}
labels:
  {{- include "nfo.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge dict (default dict .annotations) (default dict .root.Values.commonAnnotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The user that the API server sees, as the admission policies name it. */}}
{{- define "nfo.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.serviceAccount.name }}
{{- end }}

{{/* Where the image is. What stands before the first slash is a registry if it has a dot or a port, or is localhost. */}}
{{- define "nfo.repository" -}}
{{- $own := .Values.image.repository -}}
{{- with .Values.global.imageRegistry -}}
{{- $own = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $own "") -}}
{{- end -}}
{{- $own -}}
{{- end }}

{{- define "nfo.image" -}}
{{- if .Values.image.digest -}}
{{ include "nfo.repository" . }}@{{ .Values.image.digest }}
{{- else -}}
{{ include "nfo.repository" . }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ if .Values.image.agents }}-agents{{ end }}
{{- end -}}
{{- end }}

{{/* A file of deploy/ or crds/ that holds for every release but for its labels. */}}
{{- define "nfo.relabelled" -}}
{{- $labels := include "nfo.labels" .root | nindent 4 | trimPrefix "\n    " -}}
{{- $text := .text | replace "app.kubernetes.io/name: node-fencing-operator" $labels -}}
{{- with .root.Values.commonAnnotations }}
{{- $text = $text | replace "\n  labels:\n" (printf "\n  annotations:%s\n  labels:\n" (toYaml . | nindent 4)) }}
{{- end }}
{{- $text -}}
{{- end }}

{{/* A text of a file of this chart (.file, .text) with .new in place of .old. Without .old there it would be installed as it is, for another
account for instance: so that is an error. */}}
{{- define "nfo.replaced" -}}
{{- if not (contains .old .text) -}}
{{- fail (printf "%s of this chart has no %q, which the chart's template replaces: take the whole chart of one version" .file .old) -}}
{{- end -}}
{{- .text | replace .old .new -}}
{{- end }}

{{/* Where a file of the repository (.file) can be read: in a chart of a release its URL, else its path. */}}
{{- define "nfo.page" -}}
{{ index .root.Chart.Annotations "nodefencing.io/files" }}{{ .file }}
{{- end }}

{{/* Is this kind to be rendered? Of .root, .kind ("monitoring.coreos.com/v1/ServiceMonitor"), .mode and .what (the value that asks for it). */}}
{{- define "nfo.renders" -}}
{{- if or (eq .mode "alwaysRender") (.root.Capabilities.APIVersions.Has .kind) -}}
yes
{{- else if eq .mode "failIfMissing" -}}
{{- fail (printf "%s: this cluster does not serve %s: install what defines it first, or take a renderMode of skipIfMissing or alwaysRender" .what .kind) -}}
{{- end -}}
{{- end }}
