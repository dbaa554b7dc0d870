/** Checks of the section `files` beyond its schema: the names of buckets, and the fixed rules of `public` and `private`. */
import type { Files, StorageProvider } from '../../schema/files.js'
import { pointerTo, type FaultList } from '../../schema/faults.js'

const bucketName = /^[a-z0-9][a-z0-9_-]{0,62}$/

export function checkFiles ({ buckets = {}, scan }: Files, faults: FaultList): void {
  if (scan !== undefined && Number(scan.clamd.split(':').at(-1)) > 65_535) {
    faults.add('/files/scan/clamd', 'has an invalid port: expected 1 to 65535')
  }
  for (const [name, bucket] of Object.entries(buckets)) {
    const pointer = pointerTo('/files/buckets', name)
    if (!bucketName.test(name)) {
      faults.add(pointer, 'is not a valid bucket name: expected 1 to 63 of a-z 0-9 _ -, starting with a letter or a digit')
    }
    if (name === 'public' && bucket.public === false) faults.add(`${pointer}/public`, 'the bucket `public` is always public: expected true')
    if (name === 'private' && bucket.public === true) faults.add(`${pointer}/public`, 'the bucket `private` is never public: expected false')
  }
}

/** @param hasS3 the document has a section `s3` */
export function checkStorage (provider: StorageProvider, hasS3: boolean, faults: FaultList): void {
  if (provider === 'local' && hasS3) {
    faults.add('/s3', 'is not used if `storageProvider` is `local`: set s3, supabase, r2 or both, or remove the section')
  }
  if (provider !== 'local' && !hasS3) faults.add('/s3', `missing: \`storageProvider\` is \`${provider}\``)
}
