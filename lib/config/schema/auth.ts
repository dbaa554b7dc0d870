/** Users with passwords (DESIGN 5 "Login"). */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'

export const Auth = Section({
  registration: Type.Optional(Type.Enum(['open', 'closed'], { default: 'closed', description: '`open`: whoever names a tenant may become a user of it with `POST /auth/register`, unless the `settings` of the tenant\'s document have `"registration": "closed"`. `closed`: nobody registers; `tenantry user create` makes users.' }))
}, { default: {}, description: 'Users with passwords; where `jwt` has a key to sign with they log in with `POST /auth/login`.' })
export type Auth = Filled<Static<typeof Auth>, 'registration'>
