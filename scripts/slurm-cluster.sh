#!/usr/bin/env bash
# A real Slurm cluster on this machine alone, for tests: slurm-cluster.sh start|stop|env FOLDER
#
# One controller and NODES (4) virtual nodes of CPUS (1) cores, all on 127.0.0.1, without systemd,
# cgroups or anything in /etc. All state lies in FOLDER, whose path must be short (sockets). Ports are
# looked for, so that several clusters fit on one machine. Needs Debian's slurmctld, slurmd,
# slurm-client and munge; works for root and others, with Slurm 22.05 to 24.11.
set -euo pipefail
nodes=${NODES:-4} cores=${CPUS:-1}
action=${1:?start, stop or env} folder=${2:?a folder}
export PATH=$PATH:/usr/sbin SLURM_CONF=$folder/slurm.conf

is_alive() { [[ -s $1 ]] && kill -0 "$(<"$1")" 2>/dev/null; }

# Slurm listens where the host's name leads. In a namespace of its own the name is localhost.
as_localhost() {
    if [[ $(id -u) == 0 ]] && unshare --uts true 2>/dev/null; then
        unshare --uts sh -c 'hostname localhost; exec "$@"' sh "$@"
    else
        "$@"
    fi </dev/null >>"$folder/log/start.log" 2>&1
}

# A port after which enough are free; Slurm's range of ports for clients is left alone.
free_ports() {
    local base taken used
    used=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk 'NR > 1 { split($2, a, ":"); print a[2] }' | sort -u)
    for _ in $(seq 50); do
        base=$((20000 + RANDOM % 10000)) taken=
        for port in $(seq "$base" $((base + nodes))); do
            grep -qi "^$(printf '%04X' "$port")$" <<<"$used" && taken=1
        done
        [[ -z $taken ]] && { echo "$base"; return; }
    done
    echo 'no free ports' >&2
    return 1
}

write_configuration() {
    local port=$1 user release
    user=$(id -un)
    cat >"$folder/slurm.conf" <<CONF
ClusterName=noisescale
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
# A requeued job waits for as long as its old credential may live.
AuthInfo=socket=$folder/munge.sock,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
SlurmctldParameters=preempt_send_user_signal
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=5
KillWait=5
MinJobAge=300
ReturnToService=2
MailProg=/bin/true
GresTypes=gpu
NodeName=n[1-$nodes] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=$cores RealMemory=2000 Gres=gpu:1
PartitionName=main Nodes=ALL Default=YES DefMemPerCPU=100 PriorityTier=1 GraceTime=10
PartitionName=high Nodes=ALL DefMemPerCPU=100 PriorityTier=10 PreemptMode=off
CONF
    echo "NodeName=n[1-$nodes] Name=gpu File=/dev/null" >"$folder/gres.conf"
    release=$(slurmctld -V | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
    # Known since 24.05, and needed where there is no cgroup filesystem.
    if [[ ${release/./} -ge 2405 ]]; then echo CgroupPlugin=disabled >"$folder/cgroup.conf"; fi
}

start() {
    mkdir -p "$folder"/{state,log}
    chmod 755 "$folder"
    for node in $(seq "$nodes"); do mkdir -p "$folder/spool.n$node"; done
    (umask 077 && head -c 1024 /dev/urandom >"$folder/munge.key")
    munged --key-file="$folder/munge.key" --socket="$folder/munge.sock" --pid-file="$folder/munged.pid" \
        --log-file="$folder/log/munged.log" --seed-file="$folder/munge.seed"
    write_configuration "$(free_ports)"
    as_localhost slurmctld -i
    for node in $(seq "$nodes"); do as_localhost slurmd -N "n$node"; done
    for _ in $(seq 200); do
        [[ $(timeout 2 sinfo -h -p main -t idle -o %D 2>/dev/null) == "$nodes" ]] && return
        sleep 0.1
    done
    echo 'the cluster did not start:' >&2
    tail -n 15 "$folder"/log/*.log >&2
    stop
    return 1
}

# Ends the daemons that wrote their numbers down here, and no others; jobs first.
stop() {
    local file pid pids=()
    if is_alive "$folder/slurmctld.pid"; then
        timeout 5 scancel --full --user="$(id -un)" || true
        sleep 0.3
    fi
    for file in "$folder"/slurmd.*.pid "$folder/slurmctld.pid" "$folder/munged.pid"; do
        if is_alive "$file"; then pids+=("$(<"$file")"); fi
    done
    for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null || true; done
    for pid in ${pids[@]+"${pids[@]}"}; do
        for _ in $(seq 200); do
            grep -qs '^State:.[^Z]' "/proc/$pid/status" || break
            sleep 0.05
        done
    done
}

case $action in
    start) start ;;
    stop) stop ;;
    env) echo "export SLURM_CONF='$folder/slurm.conf' PATH=\$PATH:/usr/sbin" ;;
    *) echo 'start, stop or env' >&2 && exit 2 ;;
esac
