#!/bin/sh
# A job on YARN, its driver too. JOB is load, reconcile or stream_load; its options follow:
#   deploy/spark/submit/yarn.sh reconcile --from 2026-01-31 --to 2026-02-01
# Settings and secrets travel with --files, and the settings name them without a folder. The audit
# store has to be PostgreSQL, since the driver runs on any machine.
set -eu
job=$1
shift
here=$(dirname "$0")
: "${PACKAGE:=build/tallymark-spark.tar.gz}"   # made by make spark-package
: "${SETTINGS:=/etc/tallymark/tallymark.toml}"
: "${FILES:=$SETTINGS}"                        # and ca.pem, password files: separated by commas
exec "${SPARK_SUBMIT:-spark-submit}" \
  --master yarn --deploy-mode cluster \
  --name "tallymark-$job" \
  --archives "$PACKAGE#environment" \
  --files "$FILES" \
  --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python \
  --conf spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python \
  --conf spark.yarn.maxAppAttempts=1 \
  "$here/../../../spark_jobs/tallymark_spark_jobs/jobs/$job.py" \
  --settings "$(basename "$SETTINGS")" "$@"
