{{/* What a pod writes in `image:`. Takes the root and one of the `image` values. */}}
{{- define "scavenger.image" -}}
{{- $root := index . 0 }}{{ $image := index . 1 -}}
{{- $name := printf "%s/%s" ($image.registry | default $root.Values.image.registry) $image.repository -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else -}}
{{ $name }}:{{ $image.tag | default $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The URL of the database for a role. Takes the root and the role's name; PGPASSWORD stands in the environment. */}}
{{- define "scavenger.database" -}}
{{- $root := index . 0 }}{{ $role := index . 1 }}{{ with $root.Values.database -}}
postgres://{{ $role }}:$(PGPASSWORD)@{{ .host }}:{{ .port }}/{{ .name }}{{ with .parameters }}?{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{/* In preemption mode Operator the operator needs a class of its own: without one it would wait for itself to free its
capacity. */}}
{{- define "scavenger.operatorClass" -}}
{{- if .Values.operator.priorityClassName -}}
{{ .Values.operator.priorityClassName }}
{{- else if eq .Values.preemption.mode "Operator" -}}
scavenger-system
{{- end -}}
{{- end -}}

{{/* The spec of the pool: what the values say, and what follows from other values. */}}
{{- define "scavenger.pool" -}}
{{- $spec := deepCopy .Values.pool.spec -}}
{{- if eq .Values.preemption.mode "Operator" -}}
{{- $_ := set $spec "preemptionMode" "Operator" -}}
{{- end -}}
{{- if and .Values.supervisor.enabled (not (hasKey $spec "supervisor")) -}}
{{- $supervisor := dict "image" (include "scavenger.image" (list . .Values.supervisor.image)) -}}
{{- with .Values.supervisor.pullSecrets -}}
{{- $_ := set $supervisor "imagePullSecrets" . -}}
{{- end -}}
{{- $_ := set $spec "supervisor" $supervisor -}}
{{- end -}}
{{- if and (ne .Release.Namespace "scavenger-system") (not (hasKey $spec "trustedCreators")) -}}
{{- $_ := set $spec "trustedCreators" (list (printf "system:serviceaccount:%s:gromacs-submitter" .Release.Namespace)) -}}
{{- end -}}
{{ toYaml $spec }}
{{- end -}}
