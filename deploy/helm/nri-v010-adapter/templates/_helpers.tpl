{{- define "adapter.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "adapter.labels" -}}
{{ include "adapter.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "adapter.image" -}}
{{ .Values.image.name }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "adapter.hooksMap" -}}
{{ .Values.hooks.configMap | default (printf "%s-hooks" .Release.Name) }}
{{- end }}

{{- define "adapter.legacyMap" -}}
{{- if .Values.legacy.configMap }}{{ .Values.legacy.configMap }}
{{- else if .Values.legacy.conf }}{{ .Release.Name }}-legacy
{{- end }}
{{- end }}

{{/* The adapter's configuration: what the profile needs, then .Values.config. The node's files are below /host. */}}
{{- define "adapter.config" -}}
hostRoot: /host
hooks:
  directories:
    - /host/usr/share/containers/oci/hooks.d
    - /host/etc/containers/oci/hooks.d
    - /etc/nri-hooks.d
metrics:
  listen: {{ .Values.metrics.enabled | ternary (printf "0.0.0.0:%v" .Values.metrics.port) "unix:/run/probe/socket" | quote }}
{{- if eq .Values.profile "legacy" }}
legacy:
  config: {{ include "adapter.legacyMap" . | empty | ternary "/host/etc/nri/conf.json" "/etc/nri-legacy/conf.json" }}
mountNamespace: /proc/1/ns/mnt
{{- end }}
{{- end }}

{{- define "adapter.probe" -}}
{{- if .metrics.enabled -}}
httpGet: {path: /{{ .page }}, port: metrics}
{{- else -}}
exec: {command: [probe, {{ .page }}]}
{{- end }}
{{- end }}
