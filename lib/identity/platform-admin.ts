/** The administrator of the server: the role `admin` in a token that names no tenant, or the platform's API key. */
export function isPlatformAdmin (auth: { readonly role?: string | undefined, readonly tenant_id?: string | undefined }): boolean {
  return auth.role === 'admin' && auth.tenant_id === undefined
}
