package main

import (
	"context"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

func podTemplate() corev1.PodTemplateSpec {
	labels := map[string]string{"app": "web"}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:  "web",
			Image: "web:1",
			Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)},
			}},
		}}},
	}
}

// useWorkloads stores what a cluster would run: defaults, scale, status, namespaces.
func useWorkloads(ctx context.Context, config *rest.Config) {
	client := binary(config)
	deployments := client.AppsV1().Deployments(namespace)
	deployment := got(deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: named("web"),
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: podTemplate(),
		},
	}, metav1.CreateOptions{}))
	container := deployment.Spec.Template.Spec.Containers[0]
	saw("defaults: %d replica, %s, %s, probe every %d s", *deployment.Spec.Replicas, deployment.Spec.Strategy.Type,
		container.TerminationMessagePath, container.ReadinessProbe.PeriodSeconds)

	scale := got(deployments.GetScale(ctx, "web", metav1.GetOptions{}))
	scale.Spec.Replicas = 5
	got(deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}))
	deployment = got(deployments.Get(ctx, "web", metav1.GetOptions{}))
	deployment.Status.ReadyReplicas, deployment.Status.Replicas = 4, 5
	deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}
	deployment.Labels = map[string]string{"not": "written"}
	deployment = got(deployments.UpdateStatus(ctx, deployment, metav1.UpdateOptions{}))
	expect(deployment.Labels["not"] == "", "labels do not go through status", deployment.Labels)
	deployment.Status.ReadyReplicas = 1
	deployment = got(deployments.Update(ctx, deployment, metav1.UpdateOptions{}))
	saw("scaled to %d, %d ready, generation %d", *deployment.Spec.Replicas, deployment.Status.ReadyReplicas, deployment.Generation)

	patch := []byte(`{"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}, {"name": "side", "image": "side:1"}]}}}}`)
	deployment = got(deployments.Patch(ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{}))
	names := []string{}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		names = append(names, container.Name+"="+container.Image)
	}
	saw("containers: %v, ports kept: %v", names, deployment.Spec.Template.Spec.Containers[0].Ports != nil ||
		deployment.Spec.Template.Spec.Containers[1].Ports != nil)
	deployment.Spec.Selector.MatchLabels["app"] = "other"
	_, err := deployments.Update(ctx, deployment, metav1.UpdateOptions{})
	refused(err, apierrors.IsInvalid, "changed a selector")

	job := got(client.BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: named("once"),
		Spec:       batchv1.JobSpec{Template: once()},
	}, metav1.CreateOptions{}))
	expect(job.Spec.Selector != nil, "a job selects its pods", job.Spec)
	service := got(client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: named("web"),
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))
	saw("service: %s, port %s to %s", service.Spec.Type, service.Spec.Ports[0].Protocol, service.Spec.Ports[0].TargetPort.String())
	secret := got(client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: named("hidden"), StringData: map[string]string{"key": "value"},
	}, metav1.CreateOptions{}))
	saw("secret: %s, %q", secret.Type, secret.Data["key"])
	pods := client.CoreV1().Pods(namespace)
	got(pods.Create(ctx, &corev1.Pod{ObjectMeta: named("lonely"), Spec: podTemplate().Spec}, metav1.CreateOptions{}))
	pending := got(pods.List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Pending,spec.nodeName="}))
	saw("pods pending: %d", len(pending.Items))
	must(pods.Delete(ctx, "lonely", metav1.DeleteOptions{}))

	look(ctx, config)
	removeNamespace(ctx, client)
}

func once() corev1.PodTemplateSpec {
	template := podTemplate()
	template.Labels = nil
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return template
}

// look asks for less than the objects, and for a table of them.
func look(ctx context.Context, config *rest.Config) {
	client := got(metadata.NewForConfig(metadata.ConfigFor(config)))
	list := got(client.Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).Namespace(namespace).List(ctx, metav1.ListOptions{}))
	saw("metadata: %s", list.Items[0].Name)
	raw := got(binary(config).AppsV1().RESTClient().Get().Namespace(namespace).Resource("deployments").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").DoRaw(ctx))
	var table metav1.Table
	must(json.Unmarshal(raw, &table))
	saw("table: %s with %v", table.ColumnDefinitions[0].Name, table.Rows[0].Cells[0])
}

func removeNamespace(ctx context.Context, client *kubernetes.Clientset) {
	got(client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "brief"}}, metav1.CreateOptions{}))
	inside := client.CoreV1().ConfigMaps("brief")
	got(inside.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "inside"}}, metav1.CreateOptions{}))
	must(client.CoreV1().Namespaces().Delete(ctx, "brief", metav1.DeleteOptions{}))
	eventually(ctx, "the namespace goes", func() bool {
		_, err := client.CoreV1().Namespaces().Get(ctx, "brief", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	_, err := inside.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	refused(err, apierrors.IsNotFound, "created in a namespace that is gone")
	saw("the namespace is gone with what was in it")
}
