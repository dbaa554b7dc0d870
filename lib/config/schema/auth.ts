/** Users with passwords (DESIGN 5 "Login"). */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'

/** Days. */
export const [defaultRefreshDays, maxRefreshDays] = [30, 365]

export const Auth = Section({
  refreshDays: Type.Optional(Type.Integer({ minimum: 1, maximum: maxRefreshDays, default: defaultRefreshDays, unit: 'days', description: 'How long a refresh token lives. Each use gives a new one, which lives as long again.' })),
  registration: Type.Optional(Type.Enum(['open', 'closed'], { default: 'closed', description: '`open`: whoever names a tenant may become a user of it with `POST /auth/register`, unless the `settings` of the tenant\'s document have `"registration": "closed"`. `closed`: nobody registers; `tenantry user create` makes users.' }))
}, { default: {}, description: 'Users with passwords; where `jwt` has a key to sign with they log in with `POST /auth/login`.' })
export type Auth = Filled<Static<typeof Auth>, 'registration' | 'refreshDays'>
