package rig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/operator"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
)

// operatorAccount is the ServiceAccount of manifests/.
const operatorAccount = "etcd-selfhost-operator"

// Kube is a real apiserver on a lab's etcd, with what manifests/ makes of it.
type Kube struct {
	*lab.Kube
	Lab  *Lab
	API  client.Client
	kube kubernetes.Interface
	t    testing.TB
	// Admin is a kubeconfig that may do everything.
	Admin string
}

// StartKube starts an apiserver behind node i's proxy.
func (l *Lab) StartKube(i int) *Kube {
	l.t.Helper()
	api := KubeAPIServer(l.t)
	k, err := l.Lab.NewKube(l.Nodes[i], api)
	Must(l.t, err)
	Must(l.t, k.Start())
	l.t.Cleanup(k.Kill)
	Must(l.t, k.AwaitReady(Context(l.t, 90*time.Second)))
	ctrllog.SetLogger(logr.Discard()) // it complains where it has none
	scheme, err := operator.Scheme()
	Must(l.t, err)
	c, err := client.New(k.Config(), client.Options{Scheme: scheme})
	Must(l.t, err)
	ks, err := kubernetes.NewForConfig(k.Config())
	Must(l.t, err)
	out := &Kube{Kube: k, Lab: l, API: c, kube: ks, t: l.t, Admin: filepath.Join(l.Dir, "admin.kubeconfig")}
	conf := k.Config()
	out.writeKubeconfig(out.Admin, clientcmdapi.AuthInfo{ClientCertificate: conf.CertFile, ClientKey: conf.KeyFile})
	return out
}

func (k *Kube) writeKubeconfig(file string, who clientcmdapi.AuthInfo) {
	k.t.Helper()
	conf := clientcmdapi.NewConfig()
	conf.Clusters["lab"] = &clientcmdapi.Cluster{Server: "https://" + k.Addr, CertificateAuthority: k.Config().CAFile}
	conf.AuthInfos["lab"] = &who
	conf.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "lab"}
	conf.CurrentContext = "lab"
	Must(k.t, clientcmd.WriteToFile(*conf, file))
}

// Kubectl runs the real kubectl as the administrator and returns both streams.
func (k *Kube) Kubectl(stdin string, args ...string) (string, error) {
	k.t.Helper()
	cmd := exec.CommandContext(Context(k.t, time.Minute), filepath.Join(filepath.Dir(k.Binary), "kubectl"), append([]string{"--kubeconfig", k.Admin}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "HOME="+k.Dir) // its cache of discovery
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Install applies manifests/, makes the Secret of node 0's driver certificate,
// and a kubeconfig for the ServiceAccount of manifests/, whose path it returns.
func (k *Kube) Install() (kubeconfig string) {
	k.t.Helper()
	out, err := k.Kubectl("", "apply", "-k", filepath.Join(Root(), "manifests"))
	if err != nil {
		k.t.Fatalf("kubectl apply -k manifests: %v\n%s", err, out)
	}
	ctx := Context(k.t, time.Minute)
	out, err = k.Kubectl("", "wait", "--for=condition=Established", "crd/etcdclusters.etcd.selfhost.dev", "--timeout=30s")
	if err != nil {
		k.t.Fatalf("the CRD: %v\n%s", err, out)
	}
	k.Identity(k.Lab.Nodes[0].PKIDir())
	hours := int64(4 * 3600)
	token, err := k.kube.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, operatorAccount,
		&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &hours}}, metav1.CreateOptions{})
	Must(k.t, err)
	kubeconfig = filepath.Join(k.Lab.Dir, "operator.kubeconfig")
	k.writeKubeconfig(kubeconfig, clientcmdapi.AuthInfo{Token: token.Status.Token})
	return kubeconfig
}

// Identity makes the operator's Secret of the driver certificate in a PKI
// directory; one that is there is made anew.
func (k *Kube) Identity(dir string) {
	k.t.Helper()
	ctx := Context(k.t, time.Minute)
	read := func(file string) []byte {
		b, err := os.ReadFile(file)
		Must(k.t, err)
		return b
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: operator.DefaultSecret},
		Data: map[string][]byte{"ca.crt": read(pki.CertFile(dir, pki.CA)), "tls.crt": read(pki.CertFile(dir, pki.Driver)), "tls.key": read(pki.KeyFile(dir, pki.Driver))}}
	Must(k.t, client.IgnoreNotFound(k.API.Delete(ctx, secret.DeepCopy())))
	Must(k.t, k.API.Create(ctx, secret))
}

// AddNodes makes Node objects for the lab's nodes [from, to), as a kubelet
// would, with the control-plane label and the node's loopback address.
func (k *Kube) AddNodes(from, to int) {
	k.t.Helper()
	for _, n := range k.Lab.Nodes[from:to] {
		k.AddNode(n.Name, n.Ref.Address)
	}
}

// AddNode makes one Node object.
func (k *Kube) AddNode(name, address string) {
	k.t.Helper()
	ctx := Context(k.t, time.Minute)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{operator.ControlPlaneLabel: ""}}}
	Must(k.t, k.API.Create(ctx, node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}
	Must(k.t, k.API.Status().Update(ctx, node))
}

// Cluster makes an EtcdCluster.
func (k *Kube) Cluster(name string, spec v1alpha1.EtcdClusterSpec) {
	k.t.Helper()
	Must(k.t, k.API.Create(Context(k.t, 30*time.Second), &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: spec}))
}

// Get reads an EtcdCluster.
func (k *Kube) Get(name string) (*v1alpha1.EtcdCluster, error) {
	var c v1alpha1.EtcdCluster
	ctx, cancel := context.WithTimeout(k.t.Context(), 5*time.Second)
	defer cancel()
	err := k.API.Get(ctx, types.NamespacedName{Namespace: "kube-system", Name: name}, &c)
	return &c, err
}

// Patch merges JSON into an EtcdCluster.
func (k *Kube) Patch(name, json string) {
	k.t.Helper()
	Must(k.t, k.API.Patch(Context(k.t, 30*time.Second), &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}},
		client.RawPatch(types.MergePatchType, []byte(json))))
}

// Await waits until the object is as ok says, or fails with what it was last.
func (k *Kube) Await(name string, d time.Duration, what string, ok func(*v1alpha1.EtcdCluster) bool) *v1alpha1.EtcdCluster {
	k.t.Helper()
	var last *v1alpha1.EtcdCluster
	k.Lab.Eventually(d, what, func() (bool, string) {
		c, err := k.Get(name)
		if err != nil {
			return false, err.Error()
		}
		last = c
		return ok(c), describe(c)
	})
	return last
}

func describe(c *v1alpha1.EtcdCluster) string {
	s := fmt.Sprintf("generation %d, observed %d, phase %s, size %d, ready %d, leader %s: %s", c.Generation, c.Status.ObservedGeneration, c.Status.Phase, c.Status.Size, c.Status.Ready, c.Status.Leader, c.Status.Message)
	for _, cond := range c.Status.Conditions {
		s += fmt.Sprintf("\n  %s=%s %s: %s", cond.Type, cond.Status, cond.Reason, cond.Message)
	}
	return s
}

// OperatorProcess is a running bin/operator.
type OperatorProcess struct {
	Log    string
	Health string // host:port
	cmd    *exec.Cmd
	done   chan struct{}
}

// StartOperator runs bin/operator with a kubeconfig; number tells several apart.
func (k *Kube) StartOperator(number int, kubeconfig string, more ...string) *OperatorProcess {
	k.t.Helper()
	bin := filepath.Join(filepath.Dir(Binary(k.t)), "operator")
	p := &OperatorProcess{Log: filepath.Join(k.Lab.Dir, fmt.Sprintf("operator-%d.log", number)), Health: k.Lab.Block.IP(200+number) + ":2384", done: make(chan struct{})}
	log, err := os.Create(p.Log)
	Must(k.t, err)
	defer log.Close()
	p.cmd = exec.Command(bin, append([]string{"--kubeconfig", kubeconfig, "--metrics-address", k.Lab.Block.IP(200+number) + ":2383", "--health-address", p.Health,
		"--look-every", "1s"}, more...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	Must(k.t, p.cmd.Start())
	go func() { p.cmd.Wait(); close(p.done) }() //nolint:errcheck // how it ended is in its log
	k.t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.done
		if k.t.Failed() {
			b, _ := os.ReadFile(p.Log)
			k.t.Logf("--- end of %s\n%s", p.Log, b[max(0, len(b)-8000):])
		}
	})
	return p
}

// Signal it; one that ended is fine.
func (p *OperatorProcess) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Ended says whether the process has ended.
func (p *OperatorProcess) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop ends it with SIGTERM and returns its exit code.
func (p *OperatorProcess) Stop(t testing.TB) int {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		t.Fatalf("the operator did not end within 30 s of SIGTERM; log %s", p.Log)
		return -1
	}
}

// Said says whether its log holds text.
func (p *OperatorProcess) Said(text string) bool {
	b, err := os.ReadFile(p.Log)
	return err == nil && bytes.Contains(b, []byte(text))
}
