/** Options of the group `system`. */
import { Type } from 'typebox'
import { Section } from './annotations.js'

export const maxMetricTenants = 1000
export const defaultMetricTenants = 100

export const systemOptions = {
  metrics: Type.Optional(Section({
    perTenant: Type.Optional(Type.Boolean({ default: false, description: 'Requests and their durations have the tenant as a label.' })),
    maxTenants: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: maxMetricTenants,
        default: defaultMetricTenants,
        description: 'The number of tenants with their own label: the first ones, until they are deleted. Others share the label `(other)`.'
      })
    )
  }, { description: 'Options of `GET /metrics`.' }))
}
