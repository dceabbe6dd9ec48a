#!/usr/bin/env bash
# A Slurm of eight nodes on this host, in namespaces of its own, as root; then a command in it, and it is gone.
#
#   slurm_cluster.sh COMMAND …
#
# Needs the Debian packages slurmctld, slurmd, slurm-client and munge. Nothing outside the namespaces sees it.
set -euo pipefail
if [ -z "${COREWISE_SLURM:-}" ]; then
    exec env COREWISE_SLURM=1 unshare --net --mount --uts --pid --fork --mount-proc "$0" "$@"
fi
at=$(mktemp -d)
chmod 755 "$at"
trap 'kill $(cat "$at"/*.pid) 2>/dev/null || true; sleep 0.5; rm -rf "$at"' EXIT
ip link set lo up
ip address add 10.99.0.1/32 dev lo     # slurmctld refuses to be reached at 127.*
hostname pool
printf '127.0.0.1 localhost\n10.99.0.1 pool\n' >"$at/hosts"
mount --bind "$at/hosts" /etc/hosts
mkdir -p "$at/state" "$at/munge"
dd if=/dev/urandom of="$at/munge/key" bs=1024 count=1 status=none
chmod 600 "$at/munge/key"
munged --force --key-file="$at/munge/key" --socket="$at/munge/socket" --pid-file="$at/munge.pid" \
    --log-file="$at/munge/log" --seed-file="$at/munge/seed"
cat >"$at/slurm.conf" <<CONF
ClusterName=corewise
SlurmctldHost=pool(10.99.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$at/munge/socket
CredType=cred/munge
StateSaveLocation=$at/state
SlurmctldPidFile=$at/slurmctld.pid
SlurmdPidFile=$at/slurmd-%n.pid
SlurmdSpoolDir=$at/spool-%n
SlurmctldLogFile=$at/slurmctld.log
SlurmdLogFile=$at/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
NodeName=n[1-8] NodeAddr=10.99.0.1 NodeHostname=pool Port=[17001-17008] CPUs=1
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$at/slurm.conf"
slurmctld
for k in 1 2 3 4 5 6 7 8; do
    slurmd -N "n$k"
done
for _ in $(seq 100); do
    [ "$(sinfo --noheader --format=%T 2>/dev/null | sort -u)" = idle ] && break
    sleep 0.1
done
sinfo --noheader --format='%D nodes %T' >&2 || { tail "$at"/*.log >&2; exit 1; }
"$@"
