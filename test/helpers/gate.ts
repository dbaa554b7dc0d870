/** A gate at which code of a test waits until the test opens it. */
export function gate (): { readonly opened: Promise<void>, readonly open: () => void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}
