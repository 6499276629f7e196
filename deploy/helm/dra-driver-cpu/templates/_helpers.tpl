{{/*
SPDX-License-Identifier: Apache-2.0
Copyright The dracpu authors
*/}}
{{- define "dracpu.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "dracpu.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "dracpu.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dracpu.selector" -}}
app.kubernetes.io/name: {{ include "dracpu.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dracpu.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "dracpu.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
tier: node
k8s-app: {{ .Chart.Name }}
{{- end -}}

{{/* "true" for the form dracpu/v1beta1. */}}
{{- define "dracpu.isNested" -}}
{{- if eq (toString (get (.Values.driverConfig | default dict) "apiVersion")) "dracpu/v1beta1" -}}true{{- end -}}
{{- end -}}

{{/* The flat form with args.* in front, or the nested one as it is; empty if there is nothing to say. */}}
{{- define "dracpu.config" -}}
{{- $config := deepCopy (.Values.driverConfig | default dict) -}}
{{- if not (include "dracpu.isNested" .) -}}
{{- range $key := list "cpuDeviceMode" "groupBy" "reservedCPUs" "hostnameOverride" -}}
{{- with get $.Values.args $key -}}{{- $_ := set $config $key . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if $config -}}{{- toYaml $config -}}{{- end -}}
{{- end -}}

{{/* The name of the driver, which is that of the DeviceClass. */}}
{{- define "dracpu.driverName" -}}
{{- $publish := get (.Values.driverConfig | default dict) "publish" | default dict -}}
{{- get $publish "driverName" | default "dra.cpu" -}}
{{- end -}}

{{/* The kubelet's folder, cleaned as the driver cleans it. */}}
{{- define "dracpu.kubeletRoot" -}}
{{- $root := "/var/lib/kubelet" -}}
{{- if hasKey .Values "kubeletRootDir" -}}
{{- if not (kindIs "invalid" .Values.kubeletRootDir) -}}{{- $root = .Values.kubeletRootDir -}}{{- end -}}
{{- end -}}
{{- if include "dracpu.isNested" . -}}
{{- $runtime := get .Values.driverConfig "runtime" | default dict -}}
{{- $root = get $runtime "kubeletRootDir" | default $root -}}
{{- end -}}
{{- clean $root -}}
{{- end -}}

{{/* Values kept from an older release (--reuse-values) do not have what came later. */}}
{{- define "dracpu.maxUnavailable" -}}
{{- $v := (.Values.updateStrategy).maxUnavailable -}}{{- if kindIs "invalid" $v -}}1{{- else -}}{{ $v }}{{- end -}}
{{- end -}}
{{- define "dracpu.maxSurge" -}}
{{- $v := (.Values.updateStrategy).maxSurge -}}{{- if kindIs "invalid" $v -}}0{{- else -}}{{ $v }}{{- end -}}
{{- end -}}

{{/* Everything that must not reach the cluster. docs/user/installation.md says what to do. */}}
{{- define "dracpu.checks" -}}
{{- $config := .Values.driverConfig | default dict -}}
{{- $nested := include "dracpu.isNested" . -}}
{{- range $key, $_ := .Values -}}
{{- if and (ne $key "kubeletRootDir") (eq (lower $key) "kubeletrootdir") -}}
{{- fail (printf "value %q is spelled kubeletRootDir" $key) -}}
{{- end -}}
{{- end -}}
{{- if regexMatch "(^|/)dra-driver-cpu(/|$)" .Values.image.repository -}}
{{- fail (printf "image.repository %q is the image of the Go driver, kept from an older release (helm upgrade --reuse-values); set image.repository to this driver's image and image.tag to its tag" .Values.image.repository) -}}
{{- end -}}
{{- if $nested -}}
{{- range $key := list "cpuDeviceMode" "groupBy" "reservedCPUs" "hostnameOverride" -}}
{{- if get $.Values.args $key -}}
{{- fail (printf "args.%s and a driverConfig of dracpu/v1beta1 exclude each other; write it in driverConfig" $key) -}}
{{- end -}}
{{- end -}}
{{- if .Values.args.exposePCIeRoots -}}
{{- fail "args.exposePCIeRoots and a driverConfig of dracpu/v1beta1 exclude each other; set driverConfig.publish.pcieRoots" -}}
{{- end -}}
{{- $observe := get $config "observe" | default dict -}}
{{- if and (hasKey $observe "bindAddress") (ne (toString (get $observe "bindAddress")) (printf ":%d" (int .Values.healthzPort))) -}}
{{- fail "driverConfig.observe.bindAddress must be left out or be \":<healthzPort>\"; the probes ask healthzPort" -}}
{{- end -}}
{{- end -}}
{{- $cpu := get $config "cpu" | default dict -}}
{{- $mode := ternary (get $cpu "devices") (.Values.args.cpuDeviceMode | default (get $config "cpuDeviceMode")) (ne $nested "") | default "grouped" -}}
{{- $group := ternary (get $cpu "groupBy") (.Values.args.groupBy | default (get $config "groupBy")) (ne $nested "") | default "numanode" -}}
{{- $allocator := ternary (get $cpu "allocator") (get $config "allocator") (ne $nested "") | default "cpumanager" -}}
{{- if and (eq $mode "grouped") (eq $group "machine") (ne $allocator "external") -}}
{{- fail (printf "groupBy: machine needs allocator: external (it is %s); add %s" $allocator (ternary "driverConfig.cpu.allocator: external" "driverConfig.allocator: external" (ne $nested ""))) -}}
{{- end -}}
{{- if hasKey .Values "kubeletRootDir" -}}
{{- $root := .Values.kubeletRootDir -}}
{{- if not (kindIs "invalid" $root) -}}
{{- if not (kindIs "string" $root) -}}{{- fail "kubeletRootDir must be a text" -}}{{- end -}}
{{- if eq $root "" -}}{{- fail "kubeletRootDir is empty; leave it out for /var/lib/kubelet" -}}{{- end -}}
{{- if ne $root (trim $root) -}}{{- fail (printf "kubeletRootDir %q has white space at its ends" $root) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $root := include "dracpu.kubeletRoot" . -}}
{{- if not (hasPrefix "/" $root) -}}{{- fail (printf "kubeletRootDir %q must be absolute" $root) -}}{{- end -}}
{{- if or (contains "$(" $root) (contains "$$" $root) -}}
{{- fail (printf "kubeletRootDir %q must not contain \"$(\" or \"$$\"; the kubelet would expand it" $root) -}}
{{- end -}}
{{- $socket := printf "%s/plugins_registry/%s-reg.sock" $root (include "dracpu.driverName" .) -}}
{{- if gt (len $socket) 107 -}}
{{- fail (printf "kubeletRootDir is too long: the socket %q has %d bytes, 107 are possible" $socket (len $socket)) -}}
{{- end -}}
{{- $surge := include "dracpu.maxSurge" . -}}
{{- if not (has $surge (list "0" "0%")) -}}
{{- if not (.Values.standby).enabled -}}
{{- fail "updateStrategy.maxSurge needs standby.enabled: the new pod waits for the old one, and only a ready standby lets the update go on" -}}
{{- end -}}
{{- if not (has (include "dracpu.maxUnavailable" .) (list "0" "0%")) -}}
{{- fail "updateStrategy.maxSurge needs updateStrategy.maxUnavailable: 0" -}}
{{- end -}}
{{- else if has (include "dracpu.maxUnavailable" .) (list "0" "0%") -}}
{{- fail "updateStrategy.maxUnavailable and maxSurge cannot both be 0: no pod could be replaced" -}}
{{- end -}}
{{- end -}}
