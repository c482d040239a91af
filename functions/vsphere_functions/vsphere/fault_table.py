"""Which code a fault has, by the step in which it came.

The nearest ancestor of a fault that stands here decides; at one ancestor the step's own entry comes before that
of any step. What no entry claims is Unknown when it is a VimFault, since trying again may help and each step
looks before it acts; and Internal when it is a RuntimeFault, since there the call itself was wrong.
"""

from collections.abc import Iterator

from vsphere_events.code import Code

ANY_STEP = "*"

_Words = dict[str, str]
"""Fault names, separated by spaces → our words for them."""

_ANY: dict[Code, _Words] = {
    Code.UNAUTHENTICATED: {
        "InvalidLogin PbmFaultInvalidLogin SmsInvalidLogin EamInvalidLogin IncorrectUsernamePassword "
        "AuthenticationRequired InvalidClientCertificate NoClientCertificate InvalidToken": "vCenter refuses the user "
        "or the password",
    },
    Code.PERMISSION_DENIED: {
        "SecurityError AuthMinimumAdminPermission DvsNotAuthorized NotAuthorized NoPermissionOnHost NoPermissionOnAD "
        "GuestPermissionDenied InvalidGuestLogin RestrictedByAdministrator HostAccessRestrictedToManagementServer "
        "AuthConnectionFailed": "the account may not do this",
    },
    Code.UNAVAILABLE: {
        "NotAuthenticated InvalidSession SessionNotFound": "vCenter keeps dropping the session",
        "HostCommunication HostConnectFault InvalidHostState NoActiveHostInCluster HAErrorsAtDest": "the host is not "
        "connected or not in service",
        "InaccessibleDatastore NoConnectedDatastore InvalidDatastoreState CannotAccessFile CannotAccessVmComponent "
        "CannotAccessLocalSource": "the storage or a part of the VM cannot be reached",
        "Timedout NetworkCopyFault HttpFault MigrationNotReady GuestOperationsUnavailable LicenseServerUnavailable "
        "LicenseSourceUnavailable": "vCenter could not do it in time",
        "ProviderConnectionFailed ProviderUnavailable ProviderBusy InactiveProvider PeerNotReachable "
        "StorageDrsHmsUnreachable ServiceNotInitialized EamServiceNotInitialized EamIOFault "
        "NoConnectionToVCenter": "a service of vCenter does not answer at the moment",
    },
    Code.RESOURCE_EXHAUSTED: {
        "NoDiskSpace InsufficientStorageSpace InsufficientStorageIops NamespaceFull "
        "ProviderOutOfProvisioningResource ProviderOutOfResource": "there is not enough storage",
        "InsufficientResourcesFault ResourceNotAvailable CannotPlaceWithoutPrerequisiteMoves CnsPlacementFault "
        "NoCompatibleHost NoCompatibleDatastore": "no host or datastore has room for this",
        "LimitExceeded NotEnoughLicenses NamespaceLimitReached MksConnectionLimitReached TooManyDevices "
        "TooManyConcurrentNativeClones TooManyNativeCloneLevels TooManyNativeClonesOnFile TooManySnapshotLevels "
        "TooManyGuestLogons TooMany": "a limit of vCenter is reached",
    },
    Code.ABORTED: {
        "TaskInProgress VAppOperationInProgress ConcurrentAccess ResourceInUse PbmResourceInUse FileLocked "
        "SnapshotLocked CustomizationPending ToolsInstallationInProgress SyncInProgress SyncOngoing "
        "StorageDrsHmsMoveInProgress FailToLockFaultToleranceVMs": "something else is working on the object",
        "RequestCanceled": "the task was cancelled in vCenter",
        "ManagedObjectNotFound InvalidCollectorVersion": "the object has vanished meanwhile",
    },
    Code.ALREADY_EXISTS: {
        "DuplicateName AlreadyExists FileAlreadyExists VmAlreadyExistsInDatacenter PbmAlreadyExists PbmDuplicateName "
        "DuplicateEntry CnsVolumeAlreadyExistsFault CnsAlreadyRegisteredFault": "the name is taken",
    },
    Code.INVALID_ARGUMENT: {
        "InvalidArgument InvalidName InvalidFolder InvalidDatastore InvalidDatastorePath InvalidVmConfig "
        "InvalidFormat InvalidLocale OutOfBounds NumVirtualCpusExceedsLimit FileNameTooLong FileTooLarge "
        "IncorrectFileType NotADirectory NotAFile VAppPropertyFault CustomizationFault OvfFault DatacenterMismatch "
        "UnrecognizedHost UserNotFound": "vCenter does not accept what is asked for",
    },
    Code.FAILED_PRECONDITION: {
        "InvalidState SnapshotFault MigrationFault VAppConfigFault VmConfigFault DvsFault ReplicationFault "
        "EVCConfigFault DasConfigFault HostConfigFault IscsiFault GuestOperationsFault CnsFault "
        "ToolsUnavailable DrsDisabledOnVm InvalidAffinitySettingFault RebootRequired MethodDisabled "
        "MethodAlreadyDisabledFault DisallowedChangeByService DisallowedOperationOnFailoverHost "
        "OperationDisallowedOnHost NotSupported": "the object's state or settings do not allow this",
        "CannotCreateFile CannotDeleteFile DirectoryNotEmpty FileNotWritable NamespaceWriteProtected "
        "DatastoreNotWritableOnHost": "the file or directory cannot be changed",
        "FileNotFound NotFound NoDiskFound KeyNotFound CnsVolumeNotFoundFault CnsNotRegisteredFault "
        "PbmFaultNotFound": "something that this needs is not there",
        "InvalidPowerState": "the machine's power state does not allow this",
        "QuestionPending": "the VM waits for an answer to a question",
    },
    Code.UNIMPLEMENTED: {
        "NotImplemented MethodNotFound UnsupportedVimApiVersion": "this vCenter cannot do that",
    },
    Code.INTERNAL: {
        "RuntimeFault InvalidProperty": "vCenter does not understand the call",
    },
    Code.UNKNOWN: {
        "MethodFault SystemError UnexpectedFault DatabaseError EamSystemFault EamAppFault": "vCenter reports an error "
        "that says little",
    },
}

_REMOVING = ("destroy", "delete_file", "delete_disk", "unregister")
"""Steps after which the object shall be away: that it is gone already is for the caller to judge."""

_AT: dict[str, dict[Code, _Words]] = {
    **{
        step: {Code.NOT_FOUND: {"ManagedObjectNotFound FileNotFound NotFound": "it is not there any more"}}
        for step in _REMOVING
    },
    "attach": {
        Code.FAILED_PRECONDITION: {
            "FileLocked ResourceInUse": "something that cannot be seen here has the disk"
        }
    },
    "detach": {Code.FAILED_PRECONDITION: {"InvalidDeviceSpec": "the disk cannot be detached"}},
    "power_on": {Code.UNAVAILABLE: {"InvalidState": "the host takes no machine at the moment"}},
}


def _entries() -> Iterator[tuple[tuple[str, str], tuple[Code, str]]]:
    for step, codes in {ANY_STEP: _ANY, **_AT}.items():
        for code, words in codes.items():
            for names, text in words.items():
                for name in names.split():
                    yield (step, name), (code, text)


TABLE: dict[tuple[str | None, str], tuple[Code, str]] = dict(_entries())
"""(step, fault type) → code and our words."""
