{{/*
Fails for the first key that the chart does not have: (dict "given" map "known" map "path" "controller."). An object that is empty in
values.yaml may have any keys, and so may what Kubernetes defines.
*/}}
{{- define "spark-operator.checkKeys" -}}
{{- $path := .path -}}
{{- $known := .known -}}
{{- range $key, $value := .given -}}
{{- /* Helm's own, the conditions of charts around this one, and what YAML anchors are on */ -}}
{{- $isForeign := or (and (eq $path "") (has $key (list "global" "enabled"))) (hasPrefix "x-" $key) (hasPrefix "_" $key) -}}
{{- if not (or (hasKey $known $key) $isForeign) -}}
{{- fail (printf "%s%s: no such key; %s" $path $key (include "spark-operator.advice" (dict "key" $key "path" $path "known" $known))) -}}
{{- end -}}
{{- $default := get $known $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $default) $default (not (has $key (list "resources" "securityContext" "podMetricsEndpoint"))) -}}
{{- include "spark-operator.checkKeys" (dict "given" $value "known" $default "path" (printf "%s%s." $path $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What to write instead of an unknown key: the key that has replaced one of chart 1.x, or the most similar one beside it */}}
{{- define "spark-operator.advice" -}}
{{- $replaced := dict
  "replicaCount" "controller.replicas and webhook.replicas"
  "imagePullSecrets" "image.pullSecrets"
  "serviceAccounts" "controller.serviceAccount, webhook.serviceAccount and spark.serviceAccount"
  "rbac" "controller.rbac, webhook.rbac and spark.rbac"
  "sparkJobNamespace" "spark.jobNamespaces"
  "sparkJobNamespaces" "spark.jobNamespaces"
  "controllerThreads" "controller.workers"
  "uiService" "controller.uiService"
  "ingressUrlFormat" "controller.uiIngress.urlFormat"
  "logLevel" "controller.logLevel and webhook.logLevel"
  "metrics" "prometheus.metrics"
  "podMonitor" "prometheus.podMonitor"
  "batchScheduler" "controller.batchScheduler"
  "resourceQuotaEnforcement" "webhook.resourceQuotaEnforcement"
  "leaderElection" "controller.leaderElection"
  "podAnnotations" "controller.annotations and webhook.annotations"
  "podLabels" "controller.labels and webhook.labels"
  "resyncInterval" "nothing: leave it out"
  "labelSelectorFilter" "nothing: leave it out"
  "istio" "nothing: leave it out"
  "initAnnotations" "nothing: leave it out"
  "initPodLabels" "nothing: leave it out"
  "cleanupAnnotations" "nothing: leave it out"
  "cleanupPodLabels" "nothing: leave it out"
  "namespaceSelector" "spark.jobNamespaceSelector"
  "timeout" "webhook.timeoutSeconds"
-}}
{{- $ofPods := list "nodeSelector" "tolerations" "affinity" "podSecurityContext" "securityContext" "sidecars" "volumes" "volumeMounts" "envFrom" "resources" "priorityClassName" -}}
{{- if and (has .path (list "" "webhook.")) (hasKey $replaced .key) -}}
since chart 2 it is {{ get $replaced .key }}
{{- else if and (eq .path "") (has .key $ofPods) -}}
since chart 2 it is controller.{{ .key }} and webhook.{{ .key }}
{{- else -}}
{{- with include "spark-operator.nearest" (dict "key" .key "known" (keys .known)) -}}
did you mean {{ $.path }}{{ . }}?
{{- else -}}
there are {{ keys .known | sortAlpha | join ", " }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The most similar of the known names, if any is: the one that shares most pairs of neighbouring letters with the key */}}
{{- define "spark-operator.nearest" -}}
{{- $key := lower .key -}}
{{- $best := "" -}}
{{- /* Names with less in common are not meant. */ -}}
{{- $most := 0.4 -}}
{{- range $name := sortAlpha .known -}}
{{- $shared := 0 -}}
{{- range $i := until (int (sub (max (len $key) 1) 1)) -}}
{{- if contains (substr $i (int (add $i 2)) $key) (lower $name) -}}{{- $shared = add1 $shared -}}{{- end -}}
{{- end -}}
{{- $similarity := divf (mulf 2.0 $shared) (addf (len $key) (len $name)) -}}
{{- if gt $similarity $most -}}{{- $most = $similarity -}}{{- $best = $name -}}{{- end -}}
{{- end -}}
{{- $best -}}
{{- end -}}
