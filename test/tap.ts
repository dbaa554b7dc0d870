/**
 * Takes the place of tap in the compiled copy (compile.ts), where several files share a process. `t` and `test` belong to the file that
 * runs, which is a subtest of the process (files.ts). So each file has its own results, teardown and folders.
 */
import root, { Test } from 'tap'

let t: Test = root
let test: Test['test'] = root.test
root.on('subtestStart', (file) => {
  if (!(file instanceof Test)) return
  t = file
  test = file.test
})

export * from 'tap'
export { t as default, t, test }
