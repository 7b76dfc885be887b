{{/* The gates as --feature-gates has them */}}
{{- define "spark-operator.gates" -}}
{{- $gates := list -}}
{{- range .Values.controller.featureGates -}}
{{- $gates = append $gates (printf "%s=%t" .name .enabled) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{/* Gates that are taken because Kubeflow's chart has them, and why they have no effect */}}
{{- define "spark-operator.gatesWithoutEffect" -}}
RestSubmitter: the operator submits applications itself, without a JVM
{{- end -}}

{{/* Whether a gate is on: (dict "root" $ "name" …) */}}
{{- define "spark-operator.hasGate" -}}
{{- $name := .name -}}
{{- range .root.Values.controller.featureGates -}}
{{- if and (eq .name $name) .enabled -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" if the controller knows, or may know, the directory of the admin's Spark configuration */}}
{{- define "spark-operator.hasSparkConfDir" -}}
{{- range .Values.controller.env -}}{{- if eq .name "SPARK_CONF_DIR" -}}true{{- end -}}{{- end -}}
{{- range .Values.controller.extraArgs -}}{{- if hasPrefix "--spark-conf-dir" . -}}true{{- end -}}{{- end -}}
{{- if .Values.controller.envFrom -}}true{{- end -}}
{{- /* The directory that `controller start` reads, as in Kubeflow's image */ -}}
{{- if not (and .Values.webhook.enable .Values.webhook.inControllerPods) -}}
{{- range .Values.controller.volumeMounts -}}{{- if regexMatch "^/opt/spark/conf(/|$)" .mountPath -}}true{{- end -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The flags of the controller */}}
{{- define "spark-operator.controllerArguments" -}}
{{- with .Values.controller }}
{{- with int64 .workers }}
- --controller-threads={{ . }}
{{- end }}
{{- if .leaderElection.enable }}
- --leader-election=true
- --leader-election-lock-name={{ include "spark-operator.fullname" $ }}-controller-lock
- --leader-election-lock-namespace={{ $.Release.Namespace }}
{{- with .leaderElection.leaseDuration }}
- --leader-election-lease-duration={{ . }}
{{- end }}
{{- with .leaderElection.renewDeadline }}
- --leader-election-renew-deadline={{ . }}
{{- end }}
{{- with .leaderElection.retryPeriod }}
- --leader-election-retry-period={{ . }}
{{- end }}
{{- else }}
- --leader-election=false
{{- end }}
{{- with .driverPodCreationGracePeriod }}
- --driver-pod-creation-grace-period={{ . }}
{{- end }}
{{- with int64 .maxTrackedExecutorPerApp }}
- --max-tracked-executor-per-app={{ . }}
{{- end }}
{{- if and (include "spark-operator.hasGate" (dict "root" $ "name" "DefaultTimeToLive")) (ge (int64 .defaultTimeToLiveSeconds) 0) }}
- --default-time-to-live-seconds={{ int64 .defaultTimeToLiveSeconds }}
{{- end }}
{{- with .defaultServiceAccount }}
- {{ printf "--default-service-account=%s" . | quote }}
{{- end }}
{{- if .driverPodDisruptionBudget.enable }}
- --enable-driver-pdb=true
{{- end }}
- --enable-ui-service={{ .uiService.enable }}
{{- if .uiIngress.enable }}
{{- with .uiIngress.urlFormat }}
- {{ printf "--ingress-url-format=%s" . | quote }}
{{- end }}
{{- with .uiIngress.ingressClassName }}
- {{ printf "--ingress-class-name=%s" . | quote }}
{{- end }}
{{- with .uiIngress.tls }}
- {{ printf "--ingress-tls=%s" (toJson .) | quote }}
{{- end }}
{{- with .uiIngress.annotations }}
- {{ printf "--ingress-annotations=%s" (toJson .) | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.prometheus.metrics.enable }}
{{- with .Values.prometheus.metrics.jobSubmitLatencyBuckets }}
- --metrics-job-submit-latency-buckets={{ . }}
{{- end }}
{{- with .Values.prometheus.metrics.jobStartLatencyBuckets }}
- --metrics-job-start-latency-buckets={{ . }}
{{- end }}
{{- end }}
{{- end -}}
