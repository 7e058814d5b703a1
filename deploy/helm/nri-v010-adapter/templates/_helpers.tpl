{{- define "adapter.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
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

{{/* A list has a name of its own, so that a change is a rollout. */}}
{{- define "adapter.legacyMap" -}}
{{- with .Values.legacy.conf }}{{ $.Release.Name }}-legacy-{{ toPrettyJson . | sha256sum | trunc 10 }}{{ end }}
{{- end }}

{{/* Where metrics are served: by default, nowhere outside of a node whose network the pod shares. */}}
{{- define "adapter.metricsAddress" -}}
{{- $address := .Values.metrics.address | default (eq .Values.profile "legacy" | ternary "127.0.0.1" "0.0.0.0") }}
{{- contains ":" $address | ternary (printf "[%s]" $address) $address }}:{{ .Values.metrics.port }}
{{- end }}

{{/* What the profile needs in the adapter's configuration. The node's files are below /host. */}}
{{- define "adapter.profile" -}}
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
  exempt: [{{ .Release.Namespace | quote }}]
mountNamespace: /proc/1/ns/mnt
{{- end }}
{{- end }}

{{/* The adapter's configuration. As JSON: helm and the adapter read some YAML differently, for example `=`. */}}
{{- define "adapter.config" -}}
{{- mergeOverwrite (include "adapter.profile" . | fromYaml) .Values.config | toPrettyJson }}
{{- end }}

{{/* What the adapter's pod and the pod of `helm test` have in common: where they run, and what of the node they see. */}}
{{- define "adapter.pod" -}}
{{- $seesRoot := or (eq .Values.profile "legacy") (has "/" .Values.hooks.nodeDirectories) -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- if eq .Values.profile "legacy" }}
hostPID: true # the node's programs run with the node's processes
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - {name: nri, hostPath: {path: {{ toJson .Values.nri.socketDirectory }}, type: DirectoryOrCreate}}
  - {name: state, hostPath: {path: {{ toJson .Values.stateDirectory }}, type: DirectoryOrCreate}}
  {{- if or $seesRoot .Values.nri.runtime.patchConfig }}
  - {name: host, hostPath: {path: /, type: Directory}}
  {{- end }}
  {{- if not $seesRoot }}
  {{- range $number, $path := .Values.hooks.nodeDirectories }}
  - {name: node-{{ $number }}, hostPath: {path: {{ toJson $path }}, type: DirectoryOrCreate}}
  {{- end }}
  {{- end }}
  - {name: probe, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: config, configMap: {name: {{ .Release.Name | quote }}}}
  - {name: hooks, configMap: {name: "{{ .Release.Name }}-hooks"}}
  {{- with include "adapter.legacyMap" . }}
  - {name: legacy, configMap: {name: {{ . | quote }}}}
  {{- end }}
{{- end }}

{{- define "adapter.container" -}}
{{- $isLegacy := eq .Values.profile "legacy" -}}
image: {{ include "adapter.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  readOnlyRootFilesystem: true
  {{- if $isLegacy }}
  privileged: true
  {{- else }}
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
  {{- end }}
volumeMounts:
  - {name: nri, mountPath: /var/run/nri}
  - {name: state, mountPath: /run/nri-v010-adapter}
  {{- if or $isLegacy (has "/" .Values.hooks.nodeDirectories) }}
  - {name: host, mountPath: /host, readOnly: true, mountPropagation: HostToContainer}
  {{- else }}
  {{- range $number, $path := .Values.hooks.nodeDirectories }}
  - {name: node-{{ $number }}, mountPath: {{ printf "/host%s" $path | toJson }}, readOnly: true, mountPropagation: HostToContainer}
  {{- end }}
  {{- end }}
  - {name: probe, mountPath: /run/probe}
  - {name: config, mountPath: /etc/nri}
  - {name: hooks, mountPath: /etc/nri-hooks.d}
  {{- if include "adapter.legacyMap" . }}
  - {name: legacy, mountPath: /etc/nri-legacy}
  {{- end }}
{{- end }}
