#!/usr/bin/env bash
# Runs a program under mpirun on two hosts: network namespaces of this machine, each with a host name and an address of
# its own, between which there is nothing but TCP. As root, with iproute2.
#   tests/lua/two_hosts.sh RANKS_ON_THE_FIRST RANKS_ON_THE_SECOND PROGRAM [ARGUMENT]...
# Exit status 3 where there can be no namespaces.
set -euo pipefail
here=$(realpath "${BASH_SOURCE[0]}")

# The namespace of an address of this run.
space() { echo "causeway-$CAUSEWAY_HOSTS-$1"; }
first=10.77.0.1 second=10.77.0.2

# on HOST COMMAND...
on() { exec ip netns exec "$(space "$1")" unshare --uts bash -c 'hostname "host-${0##*.}"; exec "$@"' "$@"; }

# As mpirun starts its part on another host: HOST and a line for a shell.
if [ "${1:-}" = --on ]; then
  host=$2
  shift 2
  on "$host" bash -c "$*"
fi

[ $# -ge 3 ] || { echo "two_hosts.sh: expected two numbers of ranks and a program" >&2; exit 2; }
export CAUSEWAY_HOSTS=$$
one=$1 other=$2
shift 2
cleanup() { for host in $first $second; do ip netns del "$(space $host)" 2>/dev/null || true; done; }
trap cleanup EXIT
{
  ip netns add "$(space $first)" && ip netns add "$(space $second)" &&
    ip link add "cw${CAUSEWAY_HOSTS}a" netns "$(space $first)" type veth peer name "cw${CAUSEWAY_HOSTS}b" netns "$(space $second)" &&
    ip -n "$(space $first)" addr add $first/24 dev "cw${CAUSEWAY_HOSTS}a" &&
    ip -n "$(space $second)" addr add $second/24 dev "cw${CAUSEWAY_HOSTS}b" &&
    ip -n "$(space $first)" link set "cw${CAUSEWAY_HOSTS}a" up && ip -n "$(space $second)" link set "cw${CAUSEWAY_HOSTS}b" up &&
    ip -n "$(space $first)" link set lo up && ip -n "$(space $second)" link set lo up
} 2>/dev/null || exit 3
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 \
  OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 OMPI_MCA_plm_rsh_agent="$here --on"
(on $first mpirun -H $first:"$one",$second:"$other" -n $((one + other)) "$@")
