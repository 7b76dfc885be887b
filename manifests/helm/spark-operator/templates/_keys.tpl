{{/* The keys that the chart does not have, as a YAML list of what spark-operator.unknownKey says of each */}}
{{- define "spark-operator.unknownKeys" -}}
{{- $all := .Files.Get "files/keys.yaml" | fromYaml -}}
{{- include "spark-operator.unknownKeysOf" (dict "root" . "all" $all "given" .Values "known" $all "path" "") -}}
{{- end -}}

{{/*
The same of one object: (dict "root" $ "all" map "given" map "known" map "path" "controller."). An object that is empty in values.yaml may
have any keys, and so may what Kubernetes defines.
*/}}
{{- define "spark-operator.unknownKeysOf" -}}
{{- $object := . -}}
{{- range $key, $value := .given -}}
{{- /* Helm's own, the conditions of charts around this one, and what YAML anchors are on */ -}}
{{- $isForeign := or (and (eq $object.path "") (has $key (list "global" "enabled"))) (hasPrefix "x-" $key) (hasPrefix "_" $key) -}}
{{- $default := get $object.known $key -}}
{{- if not (or (hasKey $object.known $key) $isForeign) -}}
{{- include "spark-operator.unknownKey" (dict "object" $object "key" $key "value" $value) | printf "- %s\n" -}}
{{- else if and (kindIs "map" $value) (kindIs "map" $default) $default (not (has $key (list "resources" "securityContext" "podMetricsEndpoint"))) -}}
{{- include "spark-operator.unknownKeysOf" (dict "root" $object.root "all" $object.all "given" $value "known" $default "path" (printf "%s%s." $object.path $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
{"key": its path, "advice": what to write instead, "asks": whether it asks for something that will not happen}, as JSON: (dict "object" what
spark-operator.unknownKeysOf has "key" … "value" …). A misspelt key asks for its value, and one in another place, or with another name since
chart 2, to turn something on.
*/}}
{{- define "spark-operator.unknownKey" -}}
{{- $key := .key -}}
{{- $value := .value -}}
{{- $known := .object.known -}}
{{- $path := printf "%s%s" .object.path .key -}}
{{- $renamed := include "spark-operator.renamed" . | fromYaml -}}
{{- $all := list -}}
{{- range $name, $default := .object.all -}}
{{- $all = append $all $name -}}
{{- /* What is meant for all pods is not meant for the hook alone. */ -}}
{{- if and (kindIs "map" $default) (ne $name "hook") -}}
{{- range $inner := keys $default | sortAlpha -}}{{- $all = append $all (printf "%s.%s" $name $inner) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $beside := list -}}
{{- range $name, $default := $known -}}
{{- if eq (kindIs "map" $default) (kindIs "map" $value) -}}{{- $beside = append $beside $name -}}{{- end -}}
{{- end -}}
{{- $misspelt := "" -}}
{{- if not (hasKey $renamed $path) -}}
{{- $misspelt = include "spark-operator.nearest" (dict "key" $key "known" $beside "least" 0.7) -}}
{{- range list "enable" "create" -}}
{{- if and (has $key (list "enable" "enabled" "create")) (hasKey $known .) -}}{{- $misspelt = . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $places := list -}}
{{- $asks := false -}}
{{- if $misspelt -}}
{{- $places = list (printf "%s%s" .object.path $misspelt) -}}
{{- $now := get .object.given $misspelt -}}
{{- $then := $value -}}
{{- if and (kindIs "map" $now) (kindIs "map" $value) -}}{{- $then = mergeOverwrite (deepCopy $now) $value -}}{{- end -}}
{{- $asks = and (not (kindIs "invalid" $value)) (ne (toJson $then) (toJson $now)) -}}
{{- else -}}
{{- /* The first charts had enableX for X.enable, and chart 1 made Ingresses where it had a format. */ -}}
{{- if and (regexMatch "^enable[A-Z]" $key) (not (kindIs "map" $value)) -}}
{{- $key = trimPrefix "enable" $key | untitle -}}
{{- $value = dict "enable" $value -}}
{{- else if eq $path "ingressUrlFormat" -}}
{{- $value = dict "enable" (not (empty $value)) -}}
{{- else if and (eq $key "uiIngress") (kindIs "map" $value) -}}
{{- $value = dict "enable" (and (include "spark-operator.isOn" $value) (not (empty $value.urlFormat))) -}}
{{- end -}}
{{- if hasKey $renamed $path -}}
{{- $places = get $renamed $path -}}
{{- else if hasKey $known $key -}}
{{- $places = list (printf "%s%s" .object.path $key) -}}
{{- else -}}
{{- range $all -}}{{- if eq (splitList "." . | last) $key -}}{{- $places = append $places . -}}{{- end -}}{{- end -}}
{{- end -}}
{{- with $places -}}
{{- $now := $.object.root.Values -}}
{{- range first . | splitList "." -}}{{- $now = get (default dict $now) . -}}{{- end -}}
{{- $asks = and (eq (include "spark-operator.isOn" $value) "true") (ne (include "spark-operator.isOn" $now) "true") -}}
{{- end -}}
{{- end -}}
{{- $advice := "leave it out" -}}
{{- if $places -}}
{{- $advice = printf "write %s instead" (join " and " $places) -}}
{{- else if not (hasKey $renamed $path) -}}
{{- $advice = "leave it out, no key is like it" -}}
{{- with include "spark-operator.nearest" (dict "key" .key "known" $all "least" 0.6) -}}{{- $advice = printf "the nearest key is %s" . -}}{{- end -}}
{{- end -}}
{{- dict "key" $path "advice" $advice "asks" $asks | toJson -}}
{{- end -}}

{{/* "true" if this is true, or an object whose switch is */}}
{{- define "spark-operator.isOn" -}}
{{- $switches := list . -}}
{{- if kindIs "map" . -}}{{- $switches = list .enable .enabled .create -}}{{- end -}}
{{- if has "true" (toStrings $switches) -}}true{{- end -}}
{{- end -}}

{{/* The keys of chart 1 that have other names since chart 2, which has nothing for some. The others have their names in other places. */}}
{{- define "spark-operator.renamed" -}}
replicaCount: [controller.replicas, webhook.replicas]
imagePullSecrets: [image.pullSecrets]
serviceAccounts: [controller.serviceAccount, webhook.serviceAccount, spark.serviceAccount]
sparkJobNamespace: [spark.jobNamespaces]
sparkJobNamespaces: [spark.jobNamespaces]
controllerThreads: [controller.workers]
ingressUrlFormat: [controller.uiIngress]
podAnnotations: [controller.annotations, webhook.annotations]
podLabels: [controller.labels, webhook.labels]
webhook.namespaceSelector: [spark.jobNamespaceSelector]
webhook.timeout: [webhook.timeoutSeconds]
{{- range list "resyncInterval" "labelSelectorFilter" "istio" "webhook.objectSelector" "webhook.initAnnotations" "webhook.initPodLabels" "webhook.cleanupAnnotations" "webhook.cleanupPodLabels" }}
{{ . }}: []
{{- end }}
{{- end -}}

{{/* The known path whose last name shares most pairs of neighbouring letters with the key, if it shares more than the least part */}}
{{- define "spark-operator.nearest" -}}
{{- $key := lower .key -}}
{{- $best := "" -}}
{{- $most := .least -}}
{{- range $path := .known -}}
{{- $name := splitList "." $path | last | lower -}}
{{- $shared := 0 -}}
{{- range $i := until (int (sub (max (len $key) 1) 1)) -}}
{{- if contains (substr $i (int (add $i 2)) $key) $name -}}{{- $shared = add1 $shared -}}{{- end -}}
{{- end -}}
{{- $similarity := divf (mulf 2.0 $shared) (subf (addf (len $key) (len $name)) 2) -}}
{{- if gt $similarity $most -}}{{- $most = $similarity -}}{{- $best = $path -}}{{- end -}}
{{- end -}}
{{- $best -}}
{{- end -}}
