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

{{/* A list has a name of its own, so that a change is a rollout. */}}
{{- define "adapter.legacyMap" -}}
{{- if .Values.legacy.configMap }}{{ .Values.legacy.configMap }}
{{- else if .Values.legacy.conf }}{{ .Release.Name }}-legacy-{{ toJson .Values.legacy.conf | sha256sum | trunc 10 }}
{{- end }}
{{- end }}

{{/* Where metrics are served: by default, nowhere outside of a node whose network the pod shares. */}}
{{- define "adapter.metricsAddress" -}}
{{- $address := .Values.metrics.address | default (eq .Values.profile "legacy" | ternary "127.0.0.1" "0.0.0.0") }}
{{- contains ":" $address | ternary (printf "[%s]" $address) $address }}:{{ .Values.metrics.port }}
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
  listen:
    - unix:/run/probe/socket
    {{- if .Values.metrics.enabled }}
    - {{ include "adapter.metricsAddress" . | quote }}
    {{- end }}
{{- if eq .Values.profile "legacy" }}
legacy:
  config: {{ include "adapter.legacyMap" . | empty | ternary "/host/etc/nri/conf.json" "/etc/nri-legacy/conf.json" }}
  # What a plugin enforces is not enforced in this namespace if the plugin fails.
  exempt: [{{ .Release.Namespace }}]
mountNamespace: /proc/1/ns/mnt
{{- end }}
{{- end }}
