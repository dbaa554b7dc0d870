/** Makes packages appear not to be installed. */
import { register } from 'node:module'

/** Call it before the import of the module that loads them. `names`: packages, or scopes such as `@ai-sdk`. */
export function hidePackages (...names: string[]): void {
  const hooks = `
    const hidden = ${JSON.stringify(names)}
    export async function resolve (name, context, next) {
      if (hidden.some((each) => name === each || name.startsWith(each + '/'))) {
        throw Object.assign(new Error(name + ' is not there'), { code: 'ERR_MODULE_NOT_FOUND' })
      }
      return next(name, context)
    }`
  register(`data:text/javascript,${encodeURIComponent(hooks)}`)
}
