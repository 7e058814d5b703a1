{{/* The name of all objects. */}}
{{- define "adapter.name" -}}
{{ .Values.nameOverride | default .Release.Name }}
{{- end }}

{{/* The DaemonSets, each with the label by which it knows its pods. */}}
{{- define "adapter.sets" -}}
first: {{ include "adapter.name" . | quote }}
{{- if .Values.redundant }}
second: {{ printf "%s-second" (include "adapter.name" .) | quote }}
{{- end }}
{{- end }}

{{- define "adapter.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The labels of an object: of (list $ LABELS), more of its own. */}}
{{- define "adapter.labels" -}}
{{- with index . 0 }}
{{- $usual := dict "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version) }}
{{- merge (include "adapter.selector" . | fromYaml) (index $ 1) .Values.commonLabels $usual | toYaml }}
{{- end }}
{{- end }}

{{- define "adapter.image" -}}
{{- with .Values.image }}
{{- with .registry }}{{ . }}/{{ end }}{{ .repository }}
{{- .digest | empty | ternary (printf ":%s" (.tag | default $.Chart.AppVersion)) (printf "@%s" .digest) }}
{{- end }}
{{- end }}

{{/* The priority class. Its name is the cluster's. */}}
{{- define "adapter.priorityClass" -}}
{{ .Values.priorityClassName | default (printf "%s-%s" .Release.Namespace (include "adapter.name" .)) | quote }}
{{- end }}

{{/* The files of each ConfigMap that the chart makes, by the name of the volume. */}}
{{- define "adapter.files" -}}
config: {v010-adapter.yaml: {{ include "adapter.config" . | toJson }}}
{{- with .Values.hooks.files }}
hooks:
  {{- range $name, $hook := . }}
  {{ $name }}: {{ toPrettyJson $hook | toJson }}
  {{- end }}
{{- end }}
{{- with .Values.legacy.conf }}
legacy: {conf.json: {{ toPrettyJson . | toJson }}}
{{- end }}
{{- end }}

{{/* The ConfigMaps, by the name of the volume. A change of files is a change of the name, and so a rollout. */}}
{{- define "adapter.maps" -}}
{{- range $volume, $files := include "adapter.files" . | fromYaml }}
{{ $volume }}: "{{ include "adapter.name" $ }}-{{ $volume }}-{{ toJson $files | sha256sum | trunc 10 }}"
{{- end }}
{{- with .Values.hooks.configMap }}
hooks: {{ quote . }}
{{- end }}
{{- end }}

{{/* Where metrics are served: by default, nowhere outside of a node whose network the pod shares. */}}
{{- define "adapter.metricsAddress" -}}
{{- $address := .Values.metrics.address | default (eq .Values.profile "legacy" | ternary "127.0.0.1" "0.0.0.0") }}
{{- contains ":" $address | ternary (printf "[%s]" $address) $address }}:{{ .Values.metrics.port }}
{{- end }}

{{/* What the profile needs in the adapter's configuration. The node's files are below /host. */}}
{{- define "adapter.profile" -}}
hostRoot: /host
state:
  # Of two releases on a node, the second one waits: they may have other plugins and hooks.
  owner: {{ printf "%s/%s" .Release.Namespace .Release.Name | quote }}
hooks:
  directories:
    - /host/usr/share/containers/oci/hooks.d
    - /host/etc/containers/oci/hooks.d
    {{- if or .Values.hooks.files .Values.hooks.configMap }}
    - /etc/nri-hooks.d
    {{- end }}
metrics:
  listen:
    - unix:/run/probe/socket
    {{- if .Values.metrics.enabled }}
    - {{ include "adapter.metricsAddress" . | quote }}
    {{- end }}
{{- if eq .Values.profile "legacy" }}
legacy:
  config: {{ .Values.legacy.conf | empty | ternary "/host/etc/nri/conf.json" "/etc/nri-legacy/conf.json" }}
  # What a plugin enforces is not enforced in this namespace if the plugin fails.
  exempt: [{{ .Release.Namespace | quote }}]
mountNamespace: /proc/1/ns/mnt
{{- end }}
{{- end }}

{{/* The adapter's configuration. As JSON: helm and the adapter read some YAML differently, for example `=`. */}}
{{- define "adapter.config" -}}
{{- mergeOverwrite (include "adapter.profile" . | fromYaml) .Values.config | toPrettyJson }}
{{- end }}

{{/* The directories of the node that a pod without the node's root sees: as a list in JSON, for a system that cannot make
  a missing one keeps the pod from starting. In a cluster of several systems, those that all of them have. */}}
{{- define "adapter.nodeDirectories" -}}
{{- $directories := list "/usr" "/bin" "/opt" "/etc/containers/oci/hooks.d" }}
{{- $missing := dict "talos" (list "/bin" "/etc/containers/oci/hooks.d")
  "bottlerocket" (list "/bin" "/etc/containers/oci/hooks.d")
  "cos" (list "/bin" "/opt" "/etc/containers/oci/hooks.d") }}
{{- $images := dict "talos" "^Talos" "bottlerocket" "^Bottlerocket" "cos" "^Container-Optimized OS" }}
{{- $nodes := list }}
{{- if eq .Values.distribution "auto" }}{{ $nodes = (lookup "v1" "Node" "" "").items }}{{ end }}
{{- range $name, $without := $missing }}
{{- $is := eq $name $.Values.distribution }}
{{- range $nodes }}{{ if regexMatch (get $images $name) .status.nodeInfo.osImage }}{{ $is = true }}{{ end }}{{ end }}
{{- range $without }}{{ if $is }}{{ $directories = without $directories . }}{{ end }}{{ end }}
{{- end }}
{{- .Values.hooks.nodeDirectories | default $directories | toJson }}
{{- end }}

{{/* What the adapter's pod and the pod of `helm test` have in common: where they run, and what of the node they see. */}}
{{- define "adapter.pod" -}}
{{- $seesRoot := or (eq .Values.profile "legacy") (has "/" .Values.hooks.nodeDirectories) -}}
serviceAccountName: {{ .Values.serviceAccountName | default (include "adapter.name" .) | quote }}
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
  {{- $socket := .Values.nri.socketDirectory }}
  # The runtime makes the usual one when NRI is on. Where another one is missing, it is misspelt, or NRI is off.
  - {name: nri, hostPath: {path: {{ toJson $socket }}, type: {{ eq $socket "/var/run/nri" | ternary "DirectoryOrCreate" "Directory" }}}}
  - {name: state, hostPath: {path: /run/nri-v010-adapter, type: DirectoryOrCreate}}
  {{- if eq .Values.profile "legacy" }}
  - {name: lasting, hostPath: {path: /var/lib/nri-v010-adapter, type: DirectoryOrCreate}}
  {{- end }}
  {{- if or $seesRoot .Values.nri.runtime.patchConfig }}
  - {name: host, hostPath: {path: /, type: Directory}}
  {{- end }}
  {{- if not $seesRoot }}
  {{- range $number, $path := include "adapter.nodeDirectories" . | fromJsonArray }}
  - {name: node-{{ $number }}, hostPath: {path: {{ toJson $path }}, type: DirectoryOrCreate}}
  {{- end }}
  {{- end }}
  - {name: probe, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  {{- range $volume, $map := include "adapter.maps" . | fromYaml }}
  - {name: {{ $volume }}, configMap: {name: {{ quote $map }}}}
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
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
  {{- with .Values.seLinuxOptions }}
  seLinuxOptions: {{- toYaml . | nindent 4 }}
  {{- end }}
volumeMounts:
  - {name: nri, mountPath: /var/run/nri}
  - {name: state, mountPath: /run/nri-v010-adapter}
  {{- if $isLegacy }}
  - {name: lasting, mountPath: /var/lib/nri-v010-adapter}
  {{- end }}
  {{- if or $isLegacy (has "/" .Values.hooks.nodeDirectories) }}
  - {name: host, mountPath: /host, readOnly: true, mountPropagation: HostToContainer}
  {{- else }}
  {{- range $number, $path := include "adapter.nodeDirectories" . | fromJsonArray }}
  - {name: node-{{ $number }}, mountPath: {{ printf "/host%s" $path | toJson }}, readOnly: true, mountPropagation: HostToContainer}
  {{- end }}
  {{- end }}
  - {name: probe, mountPath: /run/probe}
  {{- $places := dict "config" "/etc/nri" "hooks" "/etc/nri-hooks.d" "legacy" "/etc/nri-legacy" }}
  {{- range $volume, $_ := include "adapter.maps" . | fromYaml }}
  - {name: {{ $volume }}, mountPath: {{ get $places $volume }}}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
