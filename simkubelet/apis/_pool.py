"""The descriptor pool of our own messages.

Protobuf's default pool takes one definition of a message name per process; a user who tests a plugin has stubs of
``v1beta1.Device`` of their own in it.
"""

from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()
