/** Options of the group `system` (DESIGN 11). */
import { Type } from 'typebox'
import { Section } from './annotations.js'

export const maxMetricTenants = 1000
export const defaultMetricTenants = 100

export const systemOptions = {
  metrics: Type.Optional(Section({
    perTenant: Type.Optional(Type.Boolean({ default: false, description: 'Requests and how long they took are told by tenant, too.' })),
    maxTenants: Type.Optional(Type.Integer({ minimum: 1, maximum: maxMetricTenants, default: defaultMetricTenants, description: 'Tenants that are told apart: the first that come, until they are deleted. The others are told as one, `(other)`.' }))
  }, { description: 'What `GET /metrics` tells.' }))
}
