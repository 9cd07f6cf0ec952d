#!/bin/sh
# A job on Kubernetes, its driver too. JOB is load, reconcile or stream_load; its options follow:
#   API=https://10.0.0.1:6443 deploy/spark/submit/kubernetes.sh reconcile --from 2026-01-31
# The image is that of deploy/spark/Dockerfile. Settings and secrets are mounted from a Secret, under
# the same name in the driver and in every executor. deploy/spark/kubernetes/access.yaml first.
set -eu
job=$1
shift
: "${API:?the address of the API server}"
: "${IMAGE:=tallymark-spark:latest}"
: "${NAMESPACE:=tallymark}"
: "${SECRET:=tallymark-settings}"
inside=/usr/local/lib/python3.13/site-packages/tallymark_spark_jobs/jobs
exec "${SPARK_SUBMIT:-spark-submit}" \
  --master "k8s://$API" --deploy-mode cluster \
  --name "tallymark-$job" \
  --conf spark.kubernetes.namespace="$NAMESPACE" \
  --conf spark.kubernetes.container.image="$IMAGE" \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName=tallymark-spark \
  --conf "spark.kubernetes.driver.secrets.$SECRET=/etc/tallymark" \
  --conf "spark.kubernetes.executor.secrets.$SECRET=/etc/tallymark" \
  --conf spark.kubernetes.submission.waitAppCompletion=true \
  "local://$inside/$job.py" \
  --settings /etc/tallymark/tallymark.toml "$@"
