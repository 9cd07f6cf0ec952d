#!/bin/sh
# A job on a standalone cluster; its driver runs here. JOB is load, reconcile or stream_load:
#   MASTER=spark://host:7077 deploy/spark/submit/standalone.sh reconcile --from 2026-01-31
# Driver and workers use the same packed Python. It is unpacked here once, since Spark starts it by
# the same name on every machine, this one included.
set -eu
job=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
: "${MASTER:?such as spark://host:7077}"
: "${PACKAGE:=build/tallymark-spark.tar.gz}"   # made by make spark-package
: "${SETTINGS:=/etc/tallymark/tallymark.toml}"
: "${FILES:=$SETTINGS}"                        # and ca.pem: separated by commas
if [ ! -x environment/bin/python ]; then
  mkdir -p environment
  tar xzf "$PACKAGE" -C environment
fi
export PYSPARK_PYTHON=./environment/bin/python
exec "${SPARK_SUBMIT:-spark-submit}" \
  --master "$MASTER" --deploy-mode client \
  --name "tallymark-$job" \
  --archives "$PACKAGE#environment" \
  --files "$FILES" \
  "$here/../../../spark_jobs/tallymark_spark_jobs/jobs/$job.py" \
  --settings "$SETTINGS" "$@"
