/** The parts of Compose files and Kubernetes objects that this project uses. A misspelled or misplaced member is rejected. */
import { type TSchema, Type } from 'typebox'

const closed = (properties: Record<string, TSchema>) => Type.Object(properties, { additionalProperties: false })
const optional = (properties: Record<string, TSchema>) =>
  Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, Type.Optional(schema)]))
const Text = Type.String({ minLength: 1 })
const Count = Type.Integer({ minimum: 0 })
const Texts = Type.Array(Type.String())
const Map = (value: TSchema) => Type.Record(Type.String(), value)
const Duration = Type.String({ pattern: '^\\d+s$' })

export const Compose = closed({
  name: Text,
  'x-settings': Type.Optional(Map(Type.String())),
  services: Map(closed(optional({
    build: Text,
    image: Text,
    command: Texts,
    environment: Map(Type.String()),
    ports: Texts,
    volumes: Texts,
    depends_on: Map(closed({ condition: Type.Enum(['service_started', 'service_healthy', 'service_completed_successfully']) })),
    healthcheck: closed({ test: Texts, interval: Duration, timeout: Duration, retries: Count, start_period: Type.Optional(Duration) }),
    stop_grace_period: Duration,
    restart: Type.Enum(['no', 'always', 'on-failure', 'unless-stopped'])
  }))),
  volumes: Map(Type.Object({}))
})

const Labels = closed({ app: Text, part: Text })
const Metadata = closed({ name: Text, labels: Labels })
const Selector = closed({ matchLabels: Labels })
const Port = Type.Union([Type.Integer({ minimum: 1, maximum: 65_535 }), Text])
const Probe = closed(optional({
  httpGet: closed({ path: Text, port: Port }),
  tcpSocket: closed({ port: Port }),
  periodSeconds: Count,
  timeoutSeconds: Count,
  failureThreshold: Count
}))
const Amounts = closed(optional({ cpu: Type.String({ pattern: '^\\d+m?$' }), memory: Type.String({ pattern: '^\\d+(Mi|Gi)$' }) }))
const Container = closed({
  name: Text,
  image: Text,
  command: Texts,
  resources: closed({ requests: Amounts, limits: Amounts }),
  securityContext: closed({
    runAsNonRoot: Type.Literal(true),
    runAsUser: Type.Integer({ minimum: 1 }),
    allowPrivilegeEscalation: Type.Literal(false),
    readOnlyRootFilesystem: Type.Literal(true),
    capabilities: closed({ drop: Texts })
  }),
  ...optional({
    ports: Type.Array(closed({ name: Text, containerPort: Port })),
    envFrom: Type.Array(closed({ secretRef: closed({ name: Text }) })),
    env: Type.Array(Type.Union([
      closed({ name: Text, value: Type.String() }),
      closed({ name: Text, valueFrom: closed({ secretKeyRef: closed({ name: Text, key: Text }) }) })
    ])),
    startupProbe: Probe,
    readinessProbe: Probe,
    livenessProbe: Probe
  })
})
const Template = closed({
  metadata: closed({ labels: Labels }),
  spec: closed({
    initContainers: Type.Optional(Type.Array(Container)),
    containers: Type.Array(Container, { minItems: 1 }),
    automountServiceAccountToken: Type.Literal(false),
    terminationGracePeriodSeconds: Type.Optional(Count)
  })
})
const object = (apiVersion: string, kind: string, spec: TSchema) =>
  closed({ apiVersion: Type.Literal(apiVersion), kind: Type.Literal(kind), metadata: Metadata, spec })

/** By kind. */
export const kubernetesObjects: Readonly<Record<string, TSchema>> = {
  Deployment: object(
    'apps/v1',
    'Deployment',
    closed({
      replicas: Count,
      selector: Selector,
      strategy: closed({
        type: Type.Enum(['RollingUpdate', 'Recreate']),
        rollingUpdate: Type.Optional(closed({ maxUnavailable: Count, maxSurge: Count }))
      }),
      progressDeadlineSeconds: Type.Optional(Count),
      template: Template
    })
  ),
  Service: object('v1', 'Service', closed({ selector: Labels, ports: Type.Array(closed({ name: Text, port: Port, targetPort: Port })) })),
  PodDisruptionBudget: object('policy/v1', 'PodDisruptionBudget', closed({ minAvailable: Count, selector: Selector })),
  NetworkPolicy: object(
    'networking.k8s.io/v1',
    'NetworkPolicy',
    closed({
      podSelector: Selector,
      policyTypes: Type.Array(Type.Enum(['Ingress', 'Egress'])),
      ingress: Type.Array(closed({
        from: Type.Array(closed({ podSelector: Selector })),
        ports: Type.Array(closed({ protocol: Type.Literal('TCP'), port: Port }))
      }))
    })
  ),
  Ingress: object(
    'networking.k8s.io/v1',
    'Ingress',
    closed({
      tls: Type.Array(closed({ hosts: Texts, secretName: Text })),
      rules: Type.Array(closed({
        host: Text,
        http: closed({
          paths: Type.Array(closed({
            path: Text,
            pathType: Type.Enum(['Prefix', 'Exact']),
            backend: closed({ service: closed({ name: Text, port: closed({ name: Text }) }) })
          }))
        })
      }))
    })
  )
}
