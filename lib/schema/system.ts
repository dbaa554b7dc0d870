/** Options of the group `system`. */
import { Type } from 'typebox'
import { Section } from './annotations.js'

export const maxMetricTenants = 1000
export const defaultMetricTenants = 100

export const systemOptions = {
  metrics: Type.Optional(Section({
    perTenant: Type.Optional(Type.Boolean({ default: false, description: 'Adds the tenant as a label to requests and their durations.' })),
    maxTenants: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: maxMetricTenants,
        default: defaultMetricTenants,
        description:
          'The number of tenants with their own label: the first tenants, until they are deleted. Other tenants share the label `(other)`.'
      })
    )
  }, { description: 'Options of `GET /metrics`.' }))
}
