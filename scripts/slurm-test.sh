#!/usr/bin/env bash
# A study on a real Slurm cluster, with everything going wrong that does go wrong, gives the findings
# of the same study in one process.
#
# Four virtual nodes on this machine (slurm-cluster.sh). One task is killed, which Slurm does not
# repeat. One node is lost while its task lives on: the task runs a second time, and the first comes
# back from the dead with records of its own. One task is preempted, saves its work and is requeued.
# Needs Slurm's packages, which it installs where it may; without them it says that it was skipped.
# NOISESCALE names the program; without it, it is built.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
packages=(slurmctld slurmd slurm-client munge)
export PATH=$PATH:/usr/sbin DEBIAN_FRONTEND=noninteractive

installed() { command -v slurmctld slurmd sbatch munged >/dev/null; }
install() {
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then return 1; fi
    echo "installing ${packages[*]}"
    local wait='DPkg::Lock::Timeout=120'
    { apt-get update && apt-get install -o "$wait" -y --no-install-recommends "${packages[@]}"; } >/dev/null 2>&1
}
if ! installed && ! { install && installed; }; then
    echo "skipped: Slurm is not installed and cannot be installed here (${packages[*]})"
    exit 0
fi

program=${NOISESCALE:-}
if [[ -z $program ]]; then
    (cd "$here/.." && cargo build --quiet)
    program=$here/../target/debug/noisescale
fi
program=$(realpath "$program")
work=$(mktemp -d /tmp/noisescale-slurm.XXXXXX)
# Its socket must be within reach of all.
chmod 755 "$work"
cluster=$work/c lost=
began=$SECONDS
say() { printf '[%3d s] %s\n' $((SECONDS - began)) "$*"; }
clean_up() {
    local code=$?
    if [[ $code != 0 ]]; then
        tail -n 20 "$work"/slurm/digits/slurm/*/logs/*.out 2>/dev/null || true
        timeout 5 squeue --states=all || true
    fi
    if [[ -n $lost ]]; then kill -KILL "$lost" 2>/dev/null || true; fi
    "$here/slurm-cluster.sh" stop "$cluster" || true
    rm -rf "$work"
    exit "$code"
}
trap clean_up EXIT
fail() { say "FAILED: $*"; exit 1; }

# Waits until a command succeeds.
await() {
    local what=$1 seconds=$2
    shift 2
    local end=$((SECONDS + seconds))
    until "$@"; do
        if ((SECONDS >= end)); then fail "no $what within $seconds s"; fi
        sleep "${pause:-0.1}"
    done
}

cat >"$work/digits.toml" <<'STUDY'
title = "Digits on a cluster"
seeds = 4
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = [1]
widths = [16, 24, 32, 48]
scheme = "ntk"
[search]
kind = "paired"
learning_rate = 5.0
batch_sizes = [8, 16, 32, 64]
batch_size = 16
learning_rates = [2.5, 5.0, 10.0]
extend = 1
[time]
epochs = 120
STUDY

# Records that a process wrote.
records_of() { cat "$study"/records/*-"$1"-*.jsonl 2>/dev/null | grep -c '"run"' || true; }
# The process of a task of the array.
process_of() {
    local process environment
    for process in /proc/[0-9]*; do
        [[ $process/exe -ef $program ]] || continue
        environment=$(tr '\0' '\n' <"$process/environ" || true)
        if grep -qxF "SLURM_CONF=$SLURM_CONF" <<<"$environment" &&
            grep -qxF "SLURM_ARRAY_JOB_ID=$array" <<<"$environment" &&
            grep -qxF "SLURM_ARRAY_TASK_ID=$1" <<<"$environment"; then
            basename "$process"
            return
        fi
    done 2>/dev/null
    return 1
}
# Brings tasks to a standstill, each as soon as it has recorded a run: a task takes seconds, and what
# goes wrong for it must come before its end, on a slow machine too.
declare -A halted=()
halt() {
    local task pid
    for task in "$@"; do
        [[ -z ${halted[$task]:-} ]] || continue
        pid=$(process_of "$task") && (($(records_of "$pid") >= 1)) || continue
        kill -STOP "$pid" && halted[$task]=$pid
    done
    ((${#halted[@]} == $#))
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }
# Whether a process is at a standstill no longer, or gone.
has_woken() { ! grep -q '^State:[[:space:]]*T' "/proc/$1/status" 2>/dev/null; }
# Whether a process at a standstill has SIGUSR1, which is signal 10, waiting for it.
is_told_to_save() {
    local pending
    pending=$(sed -n 's/^ShdPnd:[[:space:]]*/0x/p' "/proc/$1/status" 2>/dev/null)
    ((${pending:-0} >> 9 & 1))
}
node_of() { squeue -h -r -j "${array}_$1" -o %N; }
says() { "$program" slurm status "$study" | grep -q "$1"; }
is_left() { "$program" slurm cancel "$1" | grep -q 'no job of this folder'; }

alone=$work/alone/digits study=$work/slurm/digits
"$program" run "$work/digits.toml" --out "$alone" --device cpu --quiet >/dev/null
say "one process: $(ls "$alone"/records | wc -l) file, $("$program" export "$alone" | tail -n +2 | wc -l) runs"

"$here/slurm-cluster.sh" start "$cluster"
eval "$("$here/slurm-cluster.sh" env "$cluster")"
say "cluster: $(sinfo -h -o '%D nodes %t')"
submit=("$program" slurm submit "$work/digits.toml" --out "$study" --array 4 --cpus-per-task 1)
submit+=(--patience 3 --checkpoint-every 1)
"${submit[@]}" | sed 's/^/        /'
array=$(<"$study/slurm/0001/array.job")
await 'work of three tasks' 60 halt 1 2 3
killed=${halted[1]} lost=${halted[2]} node=$(node_of 2)

kill -KILL "$killed"
say "task 1 killed after $(records_of "$killed") runs"
# A node that nobody reaches: its daemon gone, its process at a standstill.
kill -KILL "$(<"$cluster/slurmd.$node.pid")"
scontrol update nodename="$node" state=down reason=test
say "node $node of task 2 lost after $(records_of "$lost") runs, its process left alive"
# Slurm wakes a task before it tells it to save, and one that is awake could end in between. So it is
# halted once more until it has been told, for a part of the time of grace at most: a task that had been
# told before it was halted is never seen to be.
preempted=${halted[3]}
sbatch -p high -w "$(node_of 3)" --exclusive -o /dev/null --wrap 'sleep 1' >/dev/null
pause=0.01 await 'sign of preemption' 30 has_woken "$preempted"
kill -STOP "$preempted" 2>/dev/null || true
for ((i = 0; i < 30; i++)); do
    if is_told_to_save "$preempted" || is_gone "$preempted"; then break; fi
    sleep 0.1
done
kill -CONT "$preempted" 2>/dev/null || true
await 'preemption' 30 grep -q 'will run task .*_3 again' "$study/slurm/0001/logs/${array}_3.out"
say 'task 3 preempted: saved, and requeued by itself'

await 'end of the study' 120 says '^Nothing is missing. The report'
"$program" slurm status "$study" | sed 's/^/        /'
[[ -e $study/slurm/0001-round2/submission.json ]] || fail 'what task 1 lost was sent by nobody'
say 'nothing is missing'
kill -CONT "$lost"
await 'end of the process from the dead' 60 is_gone "$lost"
lost=
status=$("$program" slurm status "$study" --json)
duplicates=$(grep -oE '"duplicates": [0-9]+' <<<"$status" | grep -oE '[0-9]+')
say "the process of the lost node came back: $duplicates records of runs that were recorded already"
((duplicates >= 1)) || fail 'no run was recorded twice'
grep -q '"alarms": \[\]' <<<"$status" || fail 'two records of a run differ'

# All but the time that runs took.
runs() { "$program" export "$1" | cut -d, -f "$(columns "$1")" | sort; }
columns() { "$program" export "$1" | head -n 1 | tr ',' '\n' | grep -nvx seconds | cut -d: -f1 | paste -sd,; }
# What was found, without what says how: times, and that runs were recorded twice.
findings() { "$program" report "$1" --json | sed -n '/^  "studies"/,$p' | grep -vE '"(seconds|duplicates)":'; }
diff <(runs "$alone") <(runs "$study") || fail 'runs differ'
diff <(findings "$alone") <(findings "$study") || fail 'findings differ'
say "the findings are those of one process, of $(runs "$study" | tail -n +2 | wc -l) runs"

study=$work/slurm/long
"$program" slurm submit "$work/digits.toml" --out "$study" --array 2 --cpus-per-task 1 --time-scale 100 >/dev/null
array=$(<"$study/slurm/0001/array.job")
await 'work on the long study' 30 process_of 1 >/dev/null
sleep 6
"$program" slurm cancel "$study" | sed 's/^/        /'
await 'end of the cancelled jobs' 30 is_left "$study"
(($(find "$study/checkpoints" -name '*.safetensors' | wc -l) >= 1)) || fail 'cancelled tasks saved nothing'
say 'cancelled: no job is left, and work under way is saved'
say OK
