import t from 'tap'
import { check, faultsOf, route, secret } from '../../configuration/documents.js'

const idp = { issuer: 'https://idp.example/', jwksUri: 'https://idp.example/keys', audience: 'api' }
const of = (more: object) => ({ authProviders: { idp: { ...idp, ...more } } })

t.test('a provider has defaults, and firebase needs only its project', async (t) => {
  t.strictSame(check(of({})).authProviders, { idp: { ...idp, audience: ['api'], algorithms: ['RS256'] } })
  t.strictSame(check({ authProviders: { firebase: { projectId: 'my-app', roleClaim: 'role' } } }).authProviders, {
    firebase: {
      issuer: 'https://securetoken.google.com/my-app',
      jwksUri: 'https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com',
      audience: ['my-app'],
      algorithms: ['RS256'],
      roleClaim: 'role'
    }
  })
  const { firebase } =
    check({ authProviders: { firebase: { projectId: 'my-app', jwksUri: 'http://127.0.0.1:1/keys', issuer: 'x' } } }).authProviders
  t.match(firebase, { issuer: 'x', jwksUri: 'http://127.0.0.1:1/keys', audience: ['my-app'] })
  t.strictSame(check({}).authProviders, {})
  t.strictSame(
    check({ authProviders: { idp: { ...idp, audience: '{{env.AUDIENCE}}' } } }, { AUDIENCE: 'api' }).authProviders.idp?.audience,
    ['api']
  )
})

t.test('missing and wrong members of a provider are reported', async (t) => {
  const wrong: [object, RegExp][] = [
    [of({ issuer: undefined }), /^\/authProviders\/idp\/issuer: missing: expected the `issuer` of the provider$/],
    [of({ jwksUri: undefined }), /^\/authProviders\/idp\/jwksUri: missing/],
    [of({ audience: undefined }), /^\/authProviders\/idp\/audience: missing/],
    [of({ audience: [] }), /^\/authProviders\/idp\/audience: /],
    [of({ projectId: 'p' }), /^\/authProviders\/idp\/projectId: only the provider `firebase` has this member$/],
    [of({ algorithms: ['HS256'] }), /^\/authProviders\/idp\/algorithms\/0: expected .*RS256/],
    [of({ algorithms: ['none'] }), /^\/authProviders\/idp\/algorithms\/0: /],
    [of({ algorithms: [] }), /^\/authProviders\/idp\/algorithms: /],
    [of({ roleClaim: '' }), /^\/authProviders\/idp\/roleClaim: /],
    [of({ secret: 'x' }), /^\/authProviders\/idp\/secret: unknown member/],
    [{ authProviders: { firebase: {} } }, /^\/authProviders\/firebase\/projectId: missing: expected the id of the Firebase project$/],
    [{ authProviders: { firebase: { projectId: 'a/b' } } }, /^\/authProviders\/firebase\/projectId: expected/],
    [{ authProviders: { 'a b': idp } }, /^\/authProviders\/a b: .*1 to 32 characters/],
    [{ authProviders: { ['x'.repeat(33)]: idp } }, /1 to 32 characters/],
    [{ authProviders: { jwt: idp } }, /^\/authProviders\/jwt: "jwt" is reserved/],
    [{ authProviders: { idp, other: idp } }, /^\/authProviders\/other\/issuer: is also the issuer of "idp"/],
    [{ authProviders: { idp }, jwt: { secret, issuer: idp.issuer } }, /^\/authProviders\/idp\/issuer: is also the issuer of `jwt.issuer`/],
    [
      { authProviders: Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`p${index}`, { ...idp, issuer: String(index) }])) },
      /^\/authProviders: expected at most 20/
    ]
  ]
  for (const [members, expected] of wrong) t.match(faultsOf({ ...members })[0], expected)
})

t.test('keys are fetched only over https, or from this machine', async (t) => {
  for (
    const jwksUri of [
      'https://a.example/keys',
      'http://localhost:8080/keys',
      'http://127.0.0.1/k',
      'http://127.9.9.9:1/k',
      'http://[::1]:80/k'
    ]
  ) t.strictSame(faultsOf(of({ jwksUri })), [], jwksUri)
  for (
    const jwksUri of [
      'http://a.example/keys',
      'http://127.0.0.1.a.example/',
      'http://localhost.a.example/',
      'http://10.0.0.1/',
      'http://0.0.0.0/',
      'ftp://localhost/',
      'file:///etc/passwd',
      'data:application/json,{}',
      '/keys',
      'https://',
      'x'
    ]
  ) {
    t.strictSame(faultsOf(of({ jwksUri })), [
      '/authProviders/idp/jwksUri: expected a URL with `https:`, or with `http:` on this machine'
    ], jwksUri)
  }
  t.match(faultsOf(of({ jwksUri: 'https://user:hunter2@a.example/' })), [
    /^\/authProviders\/idp\/jwksUri: expected a URL without user name and password(?!.*hunter2)/
  ])
})

t.test('a route must name an existing provider, and then needs no key of the document', async (t) => {
  const named = (authProvider: string) => ({ ...of({}), routes: [{ ...route, requireAuth: true, authProvider }] })
  t.strictSame(faultsOf(named('idp')), [])
  t.match(faultsOf(named('jwt')), [/^\/routes\/0\/requireAuth: tokens cannot be verified/])
  t.match(faultsOf(named('ipd')), [
    /^\/routes\/0\/authProvider: no identity provider of that name: expected "jwt" or one of `authProviders`, idp, did you mean "idp"/
  ])
  t.match(faultsOf({ routes: [{ ...route, authProvider: 'firebase' }], jwt: { secret } }), [
    /^\/routes\/0\/authProvider: no identity provider of that name: expected "jwt"$/
  ])
  t.match(faultsOf({ authProviders: { idp: { ...idp, issuer: 7 } }, routes: [{ ...route, authProvider: 'idp' }] }), [
    /^\/authProviders\/idp\/issuer: /
  ], 'a fault of the provider is reported once')
})
