"""What a consumer group has processed, told to the audit.

``hand`` holds what was handed out and is not processed yet, ``books`` what was (both pure);
``reporter`` publishes it, ``audit`` is what applications and our connector use.
"""

from tallymark_audit.consumer.audit import ConsumerAudit

__all__ = ["ConsumerAudit"]
