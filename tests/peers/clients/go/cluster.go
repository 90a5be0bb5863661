package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// playCluster says of all deployments and jobs that all went well with them, until it is told to end.
func playCluster(ctx context.Context, config *rest.Config) {
	client := got(kubernetes.NewForConfig(config))
	factory := informers.NewSharedInformerFactory(client, 0)
	follow(factory.Apps().V1().Deployments().Informer(), func(object any) {
		settleDeployment(ctx, client, object.(*appsv1.Deployment).DeepCopy())
	})
	follow(factory.Batch().V1().Jobs().Informer(), func(object any) {
		settleJob(ctx, client, object.(*batchv1.Job).DeepCopy())
	})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	saw("playing")
	<-ctx.Done()
}

func follow(informer cache.SharedIndexInformer, settle func(any)) {
	got(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    settle,
		UpdateFunc: func(_, object any) { settle(object) },
	}))
}

func settleDeployment(ctx context.Context, client kubernetes.Interface, deployment *appsv1.Deployment) {
	if deployment.Status.ObservedGeneration == deployment.Generation {
		return
	}
	replicas := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation,
		Replicas:           replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	// Whoever changed it meanwhile wakes us again.
	_, _ = client.AppsV1().Deployments(deployment.Namespace).UpdateStatus(ctx, deployment, metav1.UpdateOptions{})
}

func settleJob(ctx context.Context, client kubernetes.Interface, job *batchv1.Job) {
	if len(job.Status.Conditions) > 0 {
		return
	}
	now := metav1.Now()
	job.Status = batchv1.JobStatus{
		StartTime: &now, CompletionTime: &now, Succeeded: 1,
		Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	_, _ = client.BatchV1().Jobs(job.Namespace).UpdateStatus(ctx, job, metav1.UpdateOptions{})
}
