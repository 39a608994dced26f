#!/usr/bin/env bash
# boot.sh BASE HOME CACHE: inside new mount, pid and host name namespaces, become the machine on which a cluster of Slurm runs.
# Its root is BASE under a layer in memory, so that many clusters share one BASE and nothing stays of them; the machine
# beneath is seen at /mnt/host. /tmp is the host's: what tests write there, jobs find at the same path.
set -euo pipefail
base=$1 home=$2 cache=$3

hostname tp-slurm
mount -t tmpfs -o mode=755 tmpfs "$home/layer"
mkdir "$home/layer/upper" "$home/layer/work"
mount -t overlay -o "lowerdir=$base,upperdir=$home/layer/upper,workdir=$home/layer/work" overlay "$home/root"
cd "$home/root"
mkdir -p mnt/host mnt/cache etc/slurm
for folder in dev sys tmp; do mount --rbind "/$folder" "$folder"; done
# Jobs are not root's; where the environments that play images lie, the host may let nobody but root look.
mount --bind "$cache" mnt/cache
mount --bind "$home/etc" etc/slurm
for file in hosts passwd group; do cp "$home/etc/$file" "etc/$file.new"; done
cat etc/passwd.new >>etc/passwd
cat etc/group.new >>etc/group
mv etc/hosts.new etc/hosts
cp "$home/etc/apptainer" usr/local/bin/apptainer
chmod 755 usr/local/bin/apptainer
mkdir -p run/munge run/oci var/spool/slurm var/lib/slurm/state var/lib/mysql
# gres.conf takes nothing but character devices; these do what /dev/null does.
for number in 0 1 2 3 4 5 6 7; do mknod -m 666 "var/lib/slurm/gpu$number" c 1 3; done
pivot_root . mnt/host
cd /
mount -t proc proc /proc
head -c 1024 /dev/urandom >/etc/munge/munge.key
chown -R munge: /etc/munge /run/munge
chmod 400 /etc/munge/munge.key
chmod 1777 /run/munge /run/oci
chown -R slurm: /var/lib/slurm/state /var/lib/mysql /etc/slurm
chmod 700 /etc/munge
echo up
exec >/dev/null 2>&1
# This process is the first of its world: it buries whom nobody else does, and takes all with it when it ends.
while :; do sleep infinity & wait "$!"; done
