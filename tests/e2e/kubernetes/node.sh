#!/bin/bash
# One node of Kubernetes, built from Go modules and run on this machine: no systemd, no docker, no registry. Needs root.
#   node.sh build                     the programs, into $K8S/bin; does nothing if they are there
#   node.sh start | stop              stop ends all that runs in the node, and removes its data
#   node.sh reboot                    ends all but the control plane, empties what a boot empties, and starts the rest
#   node.sh restart NAME [SIGNAL]     NAME: containerd kubelet apiserver etcd scheduler controller-manager
#   node.sh ns COMMAND ...            runs a command in the node: its files, its network, its processes
#   node.sh k ... | ctr ...           kubectl, ctr
#   node.sh image NAME [FILE=PATH ...]    makes an image of busybox and files, and imports it (imagePullPolicy: Never)
# The node has mount, network and pid namespaces of its own, and overlays on /etc /opt /run /usr /var. So NRI is at its
# usual places, a hostPath is the node's, and what pods and administrators write there leaves the machine as it is. The
# machine shares cgroups (/kubepods), and $K8S, at the same path.
set -euo pipefail
: "${K8S:?a directory that holds everything; keep it short (unix sockets: 107 bytes)}"
KUBERNETES=1.34.4 ETCD=3.6.12 CONTAINERD=2.4.2 CNI=1.9.1 HELM=3.19.5
NODE=node1 NODE_IP=10.86.0.1                    # an address of the node's own network; a kubelet refuses loopback
SELF=$(readlink -f "$0")
BIN=$K8S/bin RUN=$K8S/run PKI=$K8S/run/pki
SOCKET=/run/containerd/containerd.sock
export PATH="$BIN:$PATH" KUBECONFIG=$RUN/kubeconfig CONTAINERD_NAMESPACE=k8s.io

say() { echo "node: $*" >&2; }
die() { say "$*"; exit 1; }

# ---------------------------------------------------------------- build

# built NAME MODULE VERSION TAGS LDFLAGS PACKAGE... : builds commands of a module, by a helper module that requires it.
# More lines for the helper's go.mod come from stdin.
built() {
  local name=$1 module=$2 version=$3 tags=$4 flags=$5 helper=$K8S/src/$1-$3 package; shift 5
  mkdir -p "$helper"
  { printf 'module tools\n\ngo 1.26\n\nrequire %s v%s\n' "$module" "$version"; cat; } > "$helper/go.mod"
  for package in "$@"; do
    local program=${package##*/}; program=${program/#v[0-9]*/$name}
    [ -x "$BIN/$program" ] && continue
    (cd "$helper" && nice go build -trimpath -tags "$tags" -ldflags "-s -w $flags" -o "$BIN/$program" "$package") ||
      die "cannot build $package"
  done
}
build() {
  local program missing=""
  for program in etcd kube{let,ctl} kube-{apiserver,controller-manager,scheduler} containerd{,-shim-runc-v2} ctr \
      bridge loopback host-local helm; do
    [ -x "$BIN/$program" ] || missing=$program
  done
  for program in runc busybox openssl; do
    command -v $program > /dev/null || die "$program is not installed"
  done
  ! ldd /bin/busybox | grep -q '=>' || die "/bin/busybox needs libraries, which its image has not: install busybox-static"
  [ -n "$missing" ] || return 0
  # Own caches: who removes $K8S removes all. -mod=mod fills in go.mod and go.sum as needed.
  export GOMODCACHE=$K8S/gomod GOCACHE=$K8S/gocache GOTMPDIR=$K8S/gotmp CGO_ENABLED=0 GOWORK=off
  export GOFLAGS="-buildvcs=false -mod=mod -modcacherw"
  mkdir -p "$BIN" "$GOTMPDIR" "$K8S/src"
  cd "$K8S/src"
  build_kubernetes
  built etcd go.etcd.io/etcd/server/v3 $ETCD "" "" go.etcd.io/etcd/server/v3 < /dev/null
  built containerd github.com/containerd/containerd/v2 $CONTAINERD "no_btrfs no_zfs no_devmapper" "" \
    github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr} < /dev/null
  built cni github.com/containernetworking/plugins $CNI "" "" \
    github.com/containernetworking/plugins/plugins/{main/bridge,main/loopback,ipam/host-local} < /dev/null
  built helm helm.sh/helm/v3 $HELM "" "" helm.sh/helm/v3/cmd/helm < /dev/null
}
# Kubernetes' own go.mod has its parts in ./staging, which the module archive lacks: v1.X.Y there is v0.X.Y of modules.
build_kubernetes() {
  local version=k8s.io/component-base/version source minor
  minor=$(cut -d. -f2 <<< $KUBERNETES)
  source=$(go mod download -json k8s.io/kubernetes@v$KUBERNETES | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  {
    grep '^godebug' "$source/go.mod" || true
    sed -n "s#^\s*\(k8s.io/[a-z-]*\) => ./staging/.*#replace \1 => \1 v0.${KUBERNETES#1.}#p" "$source/go.mod"
  } | built kubernetes k8s.io/kubernetes $KUBERNETES "" \
    "-X $version.gitVersion=v$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=$minor" \
    k8s.io/kubernetes/cmd/{kubelet,kube-apiserver,kube-controller-manager,kube-scheduler,kubectl}
}

# ---------------------------------------------------------------- what the programs are given

# One CA; the administrator's certificate serves every component.
certificates() {
  mkdir -p "$PKI"
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=test-ca -keyout "$PKI/ca.key" -out "$PKI/ca.crt"
  certificate apiserver /CN=kube-apiserver "subjectAltName=IP:127.0.0.1,IP:$NODE_IP,IP:10.96.0.1,DNS:localhost"
  certificate admin /O=system:masters/CN=admin "extendedKeyUsage=clientAuth"
  certificate kubelet "/CN=$NODE" "subjectAltName=IP:$NODE_IP,DNS:$NODE"
  openssl genrsa -out "$PKI/sa.key" 2048
}
certificate() {   # NAME SUBJECT EXTENSIONS
  openssl req -newkey rsa:2048 -nodes -subj "$2" -keyout "$PKI/$1.key" -out "$PKI/$1.csr"
  openssl x509 -req -days 3650 -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -CAcreateserial -extfile <(echo "$3") \
    -in "$PKI/$1.csr" -out "$PKI/$1.crt"
}
configurations() {
  cat > "$KUBECONFIG" <<Y
apiVersion: v1
kind: Config
clusters: [{name: k, cluster: {server: "https://127.0.0.1:6443", certificate-authority: $PKI/ca.crt}}]
users: [{name: k, user: {client-certificate: $PKI/admin.crt, client-key: $PKI/admin.key}}]
contexts: [{name: k, context: {cluster: k, user: k}}]
current-context: k
Y
  # The kubelet must keep images that cannot be pulled again, and set no oom_score_adj that the machine's root may not.
  cat > "$RUN/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE_IP
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: AlwaysAllow}
tlsCertFile: $PKI/kubelet.crt
tlsPrivateKeyFile: $PKI/kubelet.key
containerRuntimeEndpoint: unix://$SOCKET
cgroupDriver: cgroupfs
cgroupRoot: /
failSwapOn: false
failCgroupV1: false
oomScoreAdj: 0
maxOpenFiles: $(ulimit -Hn | sed s/unlimited/1000000/)
syncFrequency: 5s                      # a changed ConfigMap shows then
nodeStatusUpdateFrequency: 5s
podLogsDir: $RUN/pods
staticPodPath: $RUN/static
volumePluginDir: $RUN/kubelet/volume-plugins
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
Y
  mkdir -p "$RUN/etc/containerd" "$RUN/cni"    # NRI is on, at its usual places: that is containerd's default
  cat > "$RUN/etc/containerd/config.toml" <<Y
version = 3
root = '$RUN/containerd/root'
state = '$RUN/containerd'
temp = '$RUN/containerd/tmp'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = 'localhost/bb:1'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    BinaryName = '$RUN/runc'
    SystemdCgroup = false
    Root = '$RUN/containerd/runc'
[plugins.'io.containerd.cri.v1.runtime'.cni]
  conf_dir = '$RUN/cni'
  bin_dirs = ['$BIN']
[plugins.'io.containerd.internal.v1.opt']
  path = '$RUN/containerd/opt'
[plugins.'io.containerd.nri.v1.nri']
  disable = false
Y
  # Tells what runs in pods, and whose a started container is. It starts in the directory of the pod's bundle, and the id
# is the last word.
  cat > "$RUN/runc" <<S
#!/bin/bash
for word; do case \$word in start | delete)
  [[ \$(<config.json) =~ sandbox-name\"\ *:\ *\"([^\"]*) ]] && pod=\${BASH_REMATCH[1]}
  [[ \$word = start && \$(<config.json) =~ sandbox-id\"\ *:\ *\"([0-9a-f]*) ]] &&
    echo "\${!#} \${BASH_REMATCH[1]}" >> $K8S/evidence/sandboxes
  echo "\$EPOCHREALTIME \${pod:--} \$word \${!#}" >> $K8S/evidence/runc
  break;;
esac; done
exec $(command -v runc) "\$@"
S
  chmod 755 "$RUN/runc"
  cat > "$RUN/cni/10-bridge.conflist" <<'Y'
{"cniVersion": "1.0.0", "name": "node", "plugins": [{
  "type": "bridge", "bridge": "k8s0", "isGateway": true, "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.85.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
Y
}

# ---------------------------------------------------------------- run

in_node() { nsenter -t "$(cat "$RUN/pid/ns")" -m -n -p --wdns="$PWD" "$@"; }
# Starts a program in the node. $RUN/pid/NAME is nsenter's pid: it forks into the pid namespace, and waits.
background() {
  local name=$1; shift
  printf '%q ' "$@" > "$RUN/pid/$name.cmd"
  env -i PATH="$PATH" HOME=/root setsid nsenter -t "$(cat "$RUN/pid/ns")" -m -n -p "$@" \
    >> "$RUN/log/$name.log" 2>&1 < /dev/null &
  echo $! > "$RUN/pid/$name"
}
wait_for() {   # SECONDS NAME COMMAND... : until the command does well, or NAME's program has ended
  local n=$(($1 * 5)) name=$2; shift 2
  while ! "$@" > /dev/null 2>&1; do
    kill -0 "$(cat "$RUN/pid/$name")" 2> /dev/null || { tail -5 "$RUN/log/$name.log" >&2; die "$name ended"; }
    n=$((n - 1)); [ $n -gt 0 ] || { tail -5 "$RUN/log/$name.log" >&2; die "$name: not ready in time"; }
    sleep 0.2
  done
}
# The node's namespaces. All in there ends with their pid 1.
namespaces() {
  # shellcheck disable=SC2016
  setsid unshare -m -n -p -f --kill-child --propagation private bash -c '
    set -e; RUN=$1
    read -r me _ < /proc/self/stat; echo $me > $RUN/pid/ns     # /proc is still the machine: its number there
    mount --make-rshared /             # pods with mountPropagation need it
    for d in etc opt run usr var; do
      mkdir -p $RUN/over/$d $RUN/over/.$d
      mount -t overlay node -o lowerdir=/$d,upperdir=$RUN/over/$d,workdir=$RUN/over/.$d /$d
    done
    mount -t proc proc /proc
    # sysctls that a kubelet sets: files with the values that it wants, so that it writes none
    for v in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
             kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
      f=${v%=*}; g=$RUN/over/${f//\//_}; echo ${v#*=} > $g; mount --bind $g /proc/sys/$f
    done
    ip link set lo up; ip link add node0 type bridge; ip addr add $2/24 dev node0; ip link set node0 up
    mkdir -p /var/lib/kubelet /var/log/containers
    rm -rf /run/nri-* /var/lib/nri-*    # the machine may have journals of adapters, and all these directories
    for d in /etc/nri /opt/nri /run/nri /etc/containerd /run/containerd; do
      mkdir -p $d $RUN$d; mount --bind $RUN$d $d
    done
    mkdir -p /opt/nri/plugins /etc/nri/conf.d
    touch $RUN/pid/ns.ready
    while :; do sleep 3600 & wait; done' node "$RUN" "$NODE_IP" > "$RUN/log/ns.log" 2>&1 < /dev/null &
  local n=100
  until [ -e "$RUN/pid/ns.ready" ]; do
    n=$((n - 1)); [ $n -gt 0 ] || { cat "$RUN/log/ns.log" >&2; die "no namespaces"; }; sleep 0.1
  done
}
start() {
  [ ! -e "$RUN/pid/ns" ] || die "it runs already (or ended badly): stop first"
  mkdir -p "$RUN"/{log,pid,pods,static,etcd,kubelet,containerd/tmp}
  certificates 2> /dev/null
  configurations; namespaces
  background containerd containerd --config /etc/containerd/config.toml
  background etcd etcd --data-dir "$RUN/etcd" --unsafe-no-fsync --listen-peer-urls http://127.0.0.1:2380 \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379
  background apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 127.0.0.1 --secure-port 6443 \
    --advertise-address "$NODE_IP" --endpoint-reconciler-type none --service-cluster-ip-range 10.96.0.0/16 \
    --authorization-mode Node,RBAC --allow-privileged=true \
    --tls-cert-file "$PKI/apiserver.crt" --tls-private-key-file "$PKI/apiserver.key" --client-ca-file "$PKI/ca.crt" \
    --kubelet-client-certificate "$PKI/admin.crt" --kubelet-client-key "$PKI/admin.key" \
    --kubelet-certificate-authority "$PKI/ca.crt" --kubelet-preferred-address-types InternalIP \
    --service-account-issuer https://kubernetes.default.svc \
    --service-account-key-file "$PKI/sa.key" --service-account-signing-key-file "$PKI/sa.key"
  wait_for 60 containerd in_node ctr version
  image localhost/bb:1
  wait_for 120 apiserver in_node kubectl get --raw /readyz
  background controller-manager kube-controller-manager --kubeconfig "$KUBECONFIG" --leader-elect=false \
    --bind-address 127.0.0.1 --service-account-private-key-file "$PKI/sa.key" --root-ca-file "$PKI/ca.crt" \
    --controllers '*' --cluster-signing-cert-file "$PKI/ca.crt" --cluster-signing-key-file "$PKI/ca.key"
  background scheduler kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false --bind-address 127.0.0.1
  background kubelet kubelet --config "$RUN/kubelet.yaml" --kubeconfig "$KUBECONFIG" --root-dir "$RUN/kubelet" \
    --hostname-override "$NODE" --node-ip "$NODE_IP" --v=2
  wait_for 60 kubelet in_node kubectl get node "$NODE"
  in_node kubectl wait --for=condition=Ready "node/$NODE" --timeout=60s > /dev/null || die "see $RUN/log/kubelet.log"
  wait_for 60 controller-manager in_node kubectl -n default get serviceaccount default
}
stop() {
  [ -d "$RUN" ] || return 0
  local pid n=100
  if pid=$(cat "$RUN/pid/ns" 2> /dev/null) && grep -qs "$RUN" "/proc/$pid/cmdline"; then
    kill -9 "$pid"; while [ -d "/proc/$pid" ] && [ $n -gt 0 ]; do n=$((n - 1)); sleep 0.1; done
  fi
  remove_cgroups
  rm -rf "$RUN" 2> /dev/null || { sleep 1; rm -rf "$RUN"; }
}
# Ends a program by a signal, and starts it again. Pods outlive a restart of containerd and kubelet.
restart() {
  local pid n=600
  pid=$(cat "$RUN/pid/$1"); pid=$(cat "/proc/$pid/task/$pid/children")
  [ -n "$pid" ] || die "$1 does not run"
  kill "-${2:-TERM}" $pid
  while kill -0 $pid 2> /dev/null; do n=$((n - 1)); [ $n -gt 0 ] || die "$1 does not end"; sleep 0.1; done
  eval "background $1 $(cat "$RUN/pid/$1.cmd")"
}
remove_cgroups() {
  local n=100 directory
  for directory in /sys/fs/cgroup/*/kubepods /sys/fs/cgroup/kubepods; do
    while [ -d "$directory" ] && ! find "$directory" -depth -type d -exec rmdir {} + 2> /dev/null; do
      n=$((n - 1)); [ $n -gt 0 ] || break; sleep 0.1
    done
  done
}
# What runs below kubepods, the shims, containerd and the kubelet end at once, with their mounts; /run is empty again.
reboot() {
  local name tasks=$RUN/containerd/io.containerd.runtime.v2.task
  for name in kubelet containerd; do
    kill -9 $(cat /proc/"$(cat "$RUN/pid/$name")"/task/*/children) || true
  done
  in_node pkill -9 containerd-shim || true
  find /sys/fs/cgroup -path '*kubepods*' -name cgroup.procs -exec cat {} + | sort -u | xargs -r kill -9 || true
  in_node sh -c "grep -o '$tasks[^ ]*' /proc/mounts | sort -r | xargs -r umount -l; rm -rf /run/nri-v010-adapter /run/nri/*"
  rm -rf "$tasks"
  remove_cgroups
  eval "background containerd $(cat "$RUN/pid/containerd.cmd")"
  wait_for 60 containerd in_node ctr version
  eval "background kubelet $(cat "$RUN/pid/kubelet.cmd")"
}
image() {
  python3 "$(dirname "$SELF")/../image.py" "$RUN/image.tar" "$@"
  in_node ctr images import "$RUN/image.tar" > /dev/null; rm "$RUN/image.tar"
}

command=${1:-}; shift || true
case $command in
  build | start | stop | reboot) $command ;;
  restart | image) "$command" "$@" ;;
  ns) in_node "$@" ;;
  k) in_node kubectl "$@" ;;
  ctr) in_node ctr "$@" ;;
  *) sed -n '2,/^set /{/^#/p}' "$SELF"; exit 2 ;;
esac
