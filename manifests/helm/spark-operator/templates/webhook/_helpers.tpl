{{/*
A webhook configuration, with the paths of Kubeflow's chart: while pods of both operators answer, during an upgrade or a rollback, both know
them: (dict "root" $ "file" … of manifests/webhook). A webhook has one namespace selector, so there is a copy of each
webhook for the labels of namespaces beside that for their names.
*/}}
{{- define "spark-operator.webhookConfiguration" -}}
{{- $root := .root -}}
{{- $object := .root.Files.Get (printf "files/%s.yaml" .file) | fromYaml -}}
{{- $selectors := list -}}
{{- with include "spark-operator.namespaces" .root | fromYamlArray -}}
{{- $selectors = append $selectors (dict "matchExpressions" (list (dict "key" "kubernetes.io/metadata.name" "operator" "In" "values" .))) -}}
{{- end -}}
{{- with include "spark-operator.namespaceSelector" .root -}}
{{- $selectors = append $selectors (include "spark-operator.labelSelector" . | fromYaml) -}}
{{- end -}}
{{- $webhooks := list -}}
{{- range $object.webhooks -}}
{{- if or $root.Values.sparkConnect.enable (ne (first (first .rules).resources) "sparkconnects") -}}
{{- $service := dict "name" (printf "%s-webhook-svc" (include "spark-operator.fullname" $root)) "namespace" $root.Release.Namespace "path" (printf "/%s" (trimSuffix ".sparkoperator.k8s.io" .name)) "port" (int64 $root.Values.webhook.port) -}}
{{- $changes := dict "failurePolicy" ($root.Values.webhook.failurePolicy | default "Fail") "timeoutSeconds" (int64 $root.Values.webhook.timeoutSeconds | default 5) "clientConfig" (dict "service" $service) -}}
{{- $webhook := mergeOverwrite (deepCopy .) $changes -}}
{{- if $selectors -}}
{{- range $i, $selector := $selectors -}}
{{- $name := ternary $webhook.name (printf "labelled.%s" $webhook.name) (eq $i 0) -}}
{{- $webhooks = append $webhooks (mergeOverwrite (deepCopy $webhook) (dict "name" $name "namespaceSelector" $selector)) -}}
{{- end -}}
{{- else -}}
{{- $webhooks = append $webhooks $webhook -}}
{{- end -}}
{{- end -}}
{{- end -}}
apiVersion: {{ $object.apiVersion }}
kind: {{ $object.kind }}
metadata:
  name: {{ include "spark-operator.fullname" .root }}-webhook
  labels:
    {{- include "spark-operator.halfLabels" (dict "root" .root "half" "webhook") | nindent 4 }}
  {{- if .root.Values.certManager.enable }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .root.Release.Namespace }}/{{ include "spark-operator.name" .root }}-certificate
  {{- end }}
webhooks:
  {{- toYaml $webhooks | nindent 2 }}
{{- end -}}

{{/*
A selector of labels as an object, from the text in which --namespace-selector has it: `team=data`, `team!=data`, `team in (data, science)`,
`team notin (data)`, `team`, `!team`, with commas between them.
*/}}
{{- define "spark-operator.labelSelector" -}}
{{- $expressions := list -}}
{{- $key := "[A-Za-z0-9][-A-Za-z0-9_./]*" -}}
{{- $value := "[-A-Za-z0-9_.]*" -}}
{{- /* Commas within parentheses do not separate requirements. */ -}}
{{- range regexFindAll "([^,(]|\\([^)]*\\)?)+" . -1 -}}
{{- $requirement := trim . -}}
{{- $name := regexFind $key $requirement -}}
{{- if eq $requirement "" -}}
{{- else if regexMatch (printf "^%s +(in|notin) *\\( *%s *(, *%s *)*\\)$" $key $value $value) $requirement -}}
{{- $operator := ternary "NotIn" "In" (regexMatch "^\\S+ +notin" $requirement) -}}
{{- $values := list -}}
{{- range splitList "," (regexReplaceAll "^[^(]*\\(|\\)$" $requirement "") -}}{{- $values = append $values (trim .) -}}{{- end -}}
{{- $expressions = append $expressions (dict "key" $name "operator" $operator "values" $values) -}}
{{- else if regexMatch (printf "^%s *(=|==|!=) *%s$" $key $value) $requirement -}}
{{- $operator := ternary "NotIn" "In" (contains "!=" $requirement) -}}
{{- $expressions = append $expressions (dict "key" $name "operator" $operator "values" (list (regexReplaceAll "^.*= *" $requirement ""))) -}}
{{- else if regexMatch (printf "^! *%s$" $key) $requirement -}}
{{- $expressions = append $expressions (dict "key" $name "operator" "DoesNotExist") -}}
{{- else if regexMatch (printf "^%s$" $key) $requirement -}}
{{- $expressions = append $expressions (dict "key" $name "operator" "Exists") -}}
{{- else -}}
{{- fail (printf "spark.jobNamespaceSelector: `%s` is no requirement (try `team=data`, `team in (data, science)`, `team` or `!team`)" $requirement) -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "matchExpressions" $expressions) -}}
{{- end -}}
