{{/* Names and labels are those of Kubeflow's chart, so that a release of that chart can be upgraded to this one. */}}

{{- define "spark-operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "spark-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "spark-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "spark-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "spark-operator.labels" -}}
{{- $labels := include "spark-operator.selectorLabels" . | fromYaml -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- $_ := set $labels "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .Release.Service -}}
{{- mergeOverwrite (deepCopy (.Values.commonLabels | default dict)) $labels | toYaml -}}
{{- end -}}

{{/*
The labels of the objects of one half: (dict "root" $ "half" "controller"). The gateway of SparkConnects counts as a half, and its values are
handed on: "values" .Values.sparkConnect.gateway.
*/}}
{{- define "spark-operator.halfLabels" -}}
{{ include "spark-operator.labels" .root }}
app.kubernetes.io/component: {{ .half }}
{{- end -}}

{{- define "spark-operator.halfSelectorLabels" -}}
{{ include "spark-operator.selectorLabels" .root }}
app.kubernetes.io/component: {{ .half }}
{{- end -}}

{{/* The half whose pods answer reviews */}}
{{- define "spark-operator.webhookHalf" -}}
{{- if .Values.webhook.inControllerPods -}}controller{{- else -}}webhook{{- end -}}
{{- end -}}

{{/* The service account of one half */}}
{{- define "spark-operator.account" -}}
{{- $account := (.values | default (index .root.Values .half)).serviceAccount -}}
{{- if $account.create -}}
{{- $account.name | default (printf "%s-%s" (include "spark-operator.fullname" .root) .half) -}}
{{- else -}}
{{- $account.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "spark-operator.sparkAccount" -}}
{{- $account := .Values.spark.serviceAccount -}}
{{- if $account.create -}}
{{- $account.name | default (printf "%s-spark" (include "spark-operator.fullname" .)) -}}
{{- else -}}
{{- $account.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The image that the values name */}}
{{- define "spark-operator.givenImage" -}}
{{- $registry := .Values.image.registry | default "" -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion -}}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/*
That image, or this operator's if it is Kubeflow's, which has none of this chart's commands: by its name, or, where a mirror has given it
another one, by its tag, which is a version of Kubeflow's operator. A mirror keeps its path.
*/}}
{{- define "spark-operator.image" -}}
{{- $given := include "spark-operator.givenImage" . -}}
{{- $name := regexReplaceAll ":[^/]*$" $given "" -}}
{{- $ours := regexReplaceAll "^((ghcr|docker)[.]io/)?kubeflow/spark-operator(/controller)?$|^(ghcr|docker)[.]io/spark-operator$" $name "localhost/spark-operator" -}}
{{- $ours = regexReplaceAll "/kubeflow/spark-operator(/controller)?$" $ours "/spark-operator" -}}
{{- if or (ne $ours $name) (regexMatch "^(v?2[.][0-9]+[.][0-9]+|v1beta[12]-)" (toString .Values.image.tag)) -}}
{{- $ours }}:{{ .Chart.AppVersion -}}
{{- else -}}
{{- $given -}}
{{- end -}}
{{- end -}}

{{/* The namespaces that are named, as a YAML list */}}
{{- define "spark-operator.named" -}}
{{- without (.Values.spark.jobNamespaces | default list | uniq) "" | toYaml -}}
{{- end -}}

{{/* The namespaces of applications as a YAML list, which is empty if they are all */}}
{{- define "spark-operator.namespaces" -}}
{{- if has "" (.Values.spark.jobNamespaces | default list) -}}[]{{- else -}}{{- include "spark-operator.named" . -}}{{- end -}}
{{- end -}}

{{/* The labels of further namespaces, if the namespaces are not all anyway */}}
{{- define "spark-operator.namespaceSelector" -}}
{{- if not (has "" (.Values.spark.jobNamespaces | default list)) -}}
{{- .Values.spark.jobNamespaceSelector | default "" | trim | trimAll "\"" | trim -}}
{{- end -}}
{{- end -}}

{{/* "true" if applications are driven in named namespaces alone */}}
{{- define "spark-operator.areNamed" -}}
{{- $namespaces := include "spark-operator.namespaces" . | fromYamlArray -}}
{{- if and $namespaces (not (include "spark-operator.namespaceSelector" .)) -}}true{{- end -}}
{{- end -}}

{{/* "true" if there is a gateway of SparkConnects */}}
{{- define "spark-operator.hasGateway" -}}
{{- if and .Values.sparkConnect.enable (dig "gateway" "enable" false .Values.sparkConnect) -}}true{{- end -}}
{{- end -}}

{{/* The flags that both halves have */}}
{{- define "spark-operator.commonArguments" -}}
{{- $namespaces := include "spark-operator.namespaces" . | fromYamlArray -}}
- --installation={{ include "spark-operator.fullname" . }}
{{- with $namespaces }}
- --namespaces={{ join "," . }}
{{- end }}
{{- with include "spark-operator.namespaceSelector" . }}
- {{ printf "--namespace-selector=%s" . | quote }}
{{- end }}
{{- with .Values.sparkConnect }}
{{- if not .enable }}
- --enable-spark-connect=false
{{- end }}
- --connect-default-access={{ .defaultAccess }}
{{- if include "spark-operator.hasGateway" $ }}
- --connect-gateway
- --connect-gateway-port-range={{ .gateway.portRange }}
- --connect-gateway-labels={{ range $i, $label := include "spark-operator.halfSelectorLabels" (dict "root" $ "half" "connect-gateway") | trim | splitList "\n" }}{{ if $i }},{{ end }}{{ $label | replace ": " "=" }}{{ end }}
- --connect-gateway-account={{ include "spark-operator.account" (dict "root" $ "half" "connect-gateway" "values" .gateway) }}
{{- end }}
{{- end }}
{{- /* The webhook checks by it how long the name of a schedule may be. */ -}}
{{- with .Values.controller.scheduledSparkApplicationTimestampPrecision }}
- --scheduled-spark-application-timestamp-precision={{ . }}
{{- end }}
{{- with .Values.controller.batchScheduler }}
{{- if .enable }}
- --enable-batch-scheduler
{{- with .kubeSchedulerNames }}
- --kube-scheduler-names={{ join "," . }}
{{- end }}
{{- if .kubernetes }}
- --enable-kubernetes-gangs
{{- end }}
{{- with .default }}
- --default-batch-scheduler={{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.prometheus.metrics }}
- --enable-metrics={{ .enable }}
{{- if .enable }}
- --metrics-bind-address=:{{ int64 .port }}
{{- with .endpoint }}
- --metrics-endpoint={{ . }}
{{- end }}
{{- with .prefix }}
- {{ printf "--metrics-prefix=%s" . | quote }}
{{- end }}
- {{ printf "--metrics-labels=%s" (.labels | default "app_type") | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The flags of whatever process answers reviews */}}
{{- define "spark-operator.webhookArguments" -}}
- --webhook-port={{ int64 .Values.webhook.port }}
{{- if .Values.webhook.resourceQuotaEnforcement.enable }}
- --enable-resource-quota-enforcement
{{- end }}
{{- $check := include "spark-operator.exposureCheck" . }}
{{- if ne $check "true" }}
- --check-exposure-rights={{ $check }}
{{- end }}
{{- if .Values.certManager.enable }}
- --enable-cert-manager
{{- end }}
{{- end -}}

{{/*
The rules of the roles of one kind in a file of manifests/rbac, as YAML: (dict "root" $ "file" "operator" "kind" "ClusterRole"). With
"without" or "only", the rules that are not, or only those that are, about one of these resources.
*/}}
{{- define "spark-operator.rules" -}}
{{- $only := .only -}}
{{- $without := .without | default list -}}
{{- $kind := .kind -}}
{{- $rules := list -}}
{{- range splitList "\n---\n" (.root.Files.Get (printf "files/%s.yaml" .file)) -}}
{{- $object := fromYaml . -}}
{{- if eq $object.kind $kind -}}
{{- range $object.rules -}}
{{- $resource := first .resources -}}
{{- if and (not (has $resource $without)) (or (not $only) (has $resource $only)) -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $text := toYaml $rules -}}
{{- $text = $text | replace "- spark-operator-lock" (printf "- %s-controller-lock" (include "spark-operator.fullname" .root)) -}}
{{- $text = $text | replace "- spark-operator-connect" (printf "- %s-connect" (include "spark-operator.fullname" .root)) -}}
{{- $text | replace "- spark-operator-webhook" (printf "- %s-webhook" (include "spark-operator.fullname" .root)) -}}
{{- end -}}

{{/* What the controller may do where applications run, as YAML */}}
{{- define "spark-operator.controllerRules" -}}
{{ include "spark-operator.rules" (dict "root" . "file" "applications" "kind" "ClusterRole") }}
{{- if .Values.sparkConnect.enable }}
{{ include "spark-operator.rules" (dict "root" . "file" "connects" "kind" "ClusterRole") }}
{{- end }}
{{- if .Values.controller.driverPodDisruptionBudget.enable }}
{{ include "spark-operator.rules" (dict "root" . "file" "driver-pdb" "kind" "ClusterRole") }}
{{- end }}
{{- if .Values.controller.batchScheduler.enable }}
{{ include "spark-operator.rules" (dict "root" . "file" "batch-scheduler" "kind" "ClusterRole") }}
{{- if .Values.controller.batchScheduler.kubeSchedulerNames }}
{{ include "spark-operator.rules" (dict "root" . "file" "coscheduling" "kind" "ClusterRole") }}
{{- end }}
{{- if .Values.controller.batchScheduler.kubernetes }}
{{ include "spark-operator.rules" (dict "root" . "file" "kubernetes-gangs" "kind" "ClusterRole") }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
"true" if the release was one of Kubeflow's chart: its Deployment, which the first upgrade finds in the cluster, lacks a flag that this
chart's always has, and then gets an annotation for all later upgrades.
*/}}
{{- define "spark-operator.wasKubeflows" -}}
{{- $before := lookup "apps/v1" "Deployment" .Release.Namespace (printf "%s-controller" (include "spark-operator.fullname" .)) -}}
{{- $isKubeflows := and $before (not (contains "--installation=" (toJson $before))) -}}
{{- if or $isKubeflows (dig "metadata" "annotations" "sparkoperator.k8s.io/was-kubeflows" "" ($before | default dict)) -}}true{{- end -}}
{{- end -}}

{{/* The value of --check-exposure-rights. Kubeflow's operator checks none, so what ran under it is not refused at once. */}}
{{- define "spark-operator.exposureCheck" -}}
{{- $given := toString .Values.webhook.checkExposureRights -}}
{{- if has $given (list "true" "false" "warn") -}}
{{- $given -}}
{{- else -}}
{{- ternary "warn" "true" (eq (include "spark-operator.wasKubeflows" .) "true") -}}
{{- end -}}
{{- end -}}

{{/* What the webhook may do where applications run, as YAML; nothing if it has nothing to ask */}}
{{- define "spark-operator.webhookRules" -}}
{{- if ne (include "spark-operator.exposureCheck" .) "false" }}
{{ include "spark-operator.rules" (dict "root" . "file" "exposure" "kind" "ClusterRole") }}
{{- end }}
{{- if .Values.webhook.resourceQuotaEnforcement.enable }}
{{ include "spark-operator.rules" (dict "root" . "file" "quota" "kind" "ClusterRole") }}
{{- end }}
{{- end -}}

{{/* A role and its binding: (dict "root" $ "half" … "kind" "Role" or "ClusterRole" "name" … "namespace" … "rules" YAML) */}}
{{- define "spark-operator.role" -}}
{{- $annotations := (.values | default (index .root.Values .half)).rbac.annotations -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "spark-operator.halfLabels" . | nindent 4 }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
rules:
  {{- .rules | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "spark-operator.halfLabels" . | nindent 4 }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "spark-operator.account" (dict "root" .root "half" .account "values" .values) }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/* The service account of a half: (dict "root" $ "half" …) */}}
{{- define "spark-operator.serviceAccount" -}}
{{- $account := (.values | default (index .root.Values .half)).serviceAccount -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "spark-operator.account" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "spark-operator.halfLabels" . | nindent 4 }}
  {{- with $account.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: {{ $account.automountServiceAccountToken }}
{{- end -}}

{{/* The PodDisruptionBudget of a half, if it has one */}}
{{- define "spark-operator.disruptionBudget" -}}
{{- $half := .values | default (index .root.Values .half) -}}
{{- $several := gt (int64 $half.replicas) 1 -}}
{{- $wanted := $half.podDisruptionBudget.enable -}}
{{- if and (eq (toString $wanted) "true") (not $several) -}}
{{- fail (printf "%s.replicas must be greater than 1 to enable pod disruption budget for %s" .half .half) -}}
{{- end -}}
{{- if or (eq (toString $wanted) "true") (and (kindIs "invalid" $wanted) $several) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "spark-operator.fullname" .root }}-{{ .half }}-pdb
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "spark-operator.halfLabels" . | nindent 4 }}
spec:
  minAvailable: {{ $half.podDisruptionBudget.minAvailable }}
  selector:
    matchLabels:
      {{- include "spark-operator.halfSelectorLabels" . | nindent 6 }}
{{- end -}}
{{- end -}}

{{/* The Deployment of a half: (dict "root" $ "half" … "arguments" YAML "servesWebhook" bool), with "metricsPort" if it is not the common one */}}
{{- define "spark-operator.deployment" -}}
{{- $root := .root -}}
{{- $half := .values | default (index .root.Values .half) -}}
{{- $context := dict "root" .root "half" .half "values" .values -}}
{{- $metrics := .root.Values.prometheus.metrics -}}
{{- $metricsPort := int64 (.metricsPort | default $metrics.port) -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "spark-operator.fullname" .root }}-{{ .half }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "spark-operator.halfLabels" $context | nindent 4 }}
  {{- $was := dict }}
  {{- if and (eq .half "controller") (include "spark-operator.wasKubeflows" .root) }}
  {{- $was = dict "sparkoperator.k8s.io/was-kubeflows" "true" }}
  {{- end }}
  {{- with mergeOverwrite $was ($half.deploymentAnnotations | default dict) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  replicas: {{ int64 $half.replicas }}
  revisionHistoryLimit: {{ int64 $half.revisionHistoryLimit }}
  {{- if .servesWebhook }}
  # A pod is ready about a second before every node leads the webhook's Service to it; until then applications would be refused.
  minReadySeconds: 3
  {{- end }}
  selector:
    matchLabels:
      {{- include "spark-operator.halfSelectorLabels" $context | nindent 6 }}
  template:
    metadata:
      labels:
        {{- mergeOverwrite (deepCopy ($half.labels | default dict)) (include "spark-operator.halfSelectorLabels" $context | fromYaml) | toYaml | nindent 8 }}
      {{- $annotations := dict }}
      {{- if $metrics.enable }}
      {{- $annotations = dict "prometheus.io/scrape" "true" "prometheus.io/port" (toString $metricsPort) "prometheus.io/path" $metrics.endpoint }}
      {{- end }}
      {{- with mergeOverwrite $annotations ($half.annotations | default dict) }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      # Each Service in the namespace would be in the environment, and those of thousands of drivers keep pods from starting.
      enableServiceLinks: false
      serviceAccountName: {{ include "spark-operator.account" $context }}
      automountServiceAccountToken: {{ $half.serviceAccount.automountServiceAccountToken }}
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $half.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $half.terminationGracePeriodSeconds }}
      terminationGracePeriodSeconds: {{ int64 . }}
      {{- end }}
      {{- if and (kindIs "bool" $half.hostUsers) (semverCompare ">=1.30-0" .root.Capabilities.KubeVersion.Version) }}
      hostUsers: {{ $half.hostUsers }}
      {{- end }}
      {{- with $half.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $half.dnsConfig }}
      dnsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $half.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        {{- if $half.affinity }}
        {{- toYaml $half.affinity | nindent 8 }}
        {{- else }}
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    {{- include "spark-operator.halfSelectorLabels" $context | nindent 20 }}
        {{- end }}
      {{- with $half.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $half.topologySpreadConstraints }}
      {{- if le (int64 $half.replicas) 1 }}
      {{- fail (printf "%s.replicas must be greater than 1 to enable topology spread constraints for %s pods" .half .half) }}
      {{- end }}
      {{- $selector := dict "matchLabels" (include "spark-operator.halfSelectorLabels" $context | fromYaml) }}
      topologySpreadConstraints:
        {{- range $half.topologySpreadConstraints }}
        - {{ mergeOverwrite (deepCopy .) (dict "labelSelector" $selector) | toYaml | nindent 10 | trim }}
        {{- end }}
      {{- end }}
      containers:
        - name: spark-operator-{{ .half }}
          image: {{ include "spark-operator.image" .root }}
          {{- with .root.Values.image.pullPolicy }}
          imagePullPolicy: {{ . }}
          {{- end }}
          args:
            {{- .arguments | trim | nindent 12 }}
            {{- with $half.logLevel }}
            - {{ printf "--zap-log-level=%v" . | quote }}
            {{- end }}
            {{- with $half.logEncoder }}
            - --zap-encoder={{ . }}
            {{- end }}
            {{- range $half.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            {{- with $half.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with $half.envFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            {{- if .servesWebhook }}
            - name: {{ .root.Values.webhook.portName }}
              containerPort: {{ int64 .root.Values.webhook.port }}
            {{- end }}
            {{- if not (and $metrics.enable .metricsPort) }}
            - name: health
              containerPort: 8081
            {{- end }}
            {{- if $metrics.enable }}
            - name: {{ $metrics.portName }}
              containerPort: {{ $metricsPort }}
            {{- end }}
          livenessProbe:
            httpGet:
              path: /healthz
              port: 8081
            periodSeconds: 10
          readinessProbe:
            httpGet:
              path: /readyz
              port: 8081
            periodSeconds: 2
          resources:
            {{- $half.resources | default (include (printf "spark-operator.%s.resources" .half) .root | fromYaml) | toYaml | nindent 12 }}
          {{- with $half.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $half.volumeMounts }}
          volumeMounts:
            {{- toYaml . | nindent 12 }}
          {{- end }}
        {{- with $half.sidecars }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $half.volumes }}
      volumes:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{- define "spark-operator.namespacesInWords" -}}
{{- $parts := list -}}
{{- with include "spark-operator.namespaces" . | fromYamlArray -}}
{{- $parts = append $parts (printf "the namespaces %s" (join ", " .)) -}}
{{- end -}}
{{- with include "spark-operator.namespaceSelector" . -}}
{{- $parts = append $parts (printf "namespaces with the labels %s" .) -}}
{{- end -}}
{{- $parts | default (list "all namespaces") | join " and of " -}}
{{- end -}}

{{/* Keys that are taken because Kubeflow's chart has them, and why they have no effect */}}
{{- define "spark-operator.withoutEffect" -}}
hook.upgradeCrd: the definitions are brought up to date, unless hook.enable is false
hook.image: the hook runs the operator's own image
controller.kubeAPIQPS: the operator does not limit its requests, the API server does
controller.kubeAPIBurst: the operator does not limit its requests, the API server does
controller.workqueueRateLimiter: the operator does not limit reconciles
controller.pprof: there is no profiler in the operator
submitter: the operator submits applications itself, without a service
webhook.kubeAPIQPS: the operator does not limit its requests, the API server does
webhook.kubeAPIBurst: the operator does not limit its requests, the API server does
webhook.leaderElection: every replica answers reviews
{{- end -}}

{{- define "spark-operator.controller.resources" -}}
requests:
  cpu: 100m
  memory: 128Mi
limits:
  memory: 1Gi
{{- end -}}

{{- define "spark-operator.webhook.resources" -}}
requests:
  cpu: 100m
  memory: 64Mi
limits:
  memory: 512Mi
{{- end -}}

{{- define "spark-operator.connect-gateway.resources" -}}
requests:
  cpu: 100m
  memory: 64Mi
limits:
  memory: 1Gi
{{- end -}}
